"""Copies without an origin, finalizers without a copy, namespaces without either.

They are left behind by a syncer that was killed between two steps, or by changes that it missed.
Nothing is removed before all assigned objects are known, and a copy only with the proof that
`down` asks for.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable

from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.multicluster.names import DOWNSTREAM_CLUSTER, parse_locator
from pykcp.multicluster.syncer.down import DownSync
from pykcp.multicluster.syncer.emptiness import NamespaceContents
from pykcp.multicluster.syncer.projections import CopyStore, SyncedCopy
from pykcp.multicluster.syncer.render import CopyName, TypeName
from pykcp.multicluster.syncer.work import SyncContext, SyncKey, TypeSync

_log = logging.getLogger(__name__)


class Sweeper:
    def __init__(
        self, context: SyncContext, down: DownSync, consumers: Callable[[str], Iterable[str]]
    ) -> None:
        """`consumers`: other workspaces that the clusters of a workspace serve."""
        self._context, self._down, self._consumers = context, down, consumers

    async def sweep(self, names: Iterable[TypeName]) -> None:
        """Look at everything of these types once; all their assigned objects are known.

        Raises StatusError if a server cannot be asked.
        """
        kept = 0
        for kind in list(names):
            synced = self._context.types.get(kind)
            if synced is None:
                continue
            kept += await self._sweep_copies(kind, synced)
            await self._sweep_finalizers(kind, synced)
        self._context.metrics.orphans[self._context.registration.uid] = kept

    async def _sweep_copies(self, kind: TypeName, synced: TypeSync) -> int:
        copies = synced.copies if synced.is_ready else await self._listed(synced)
        kept = 0
        for target, copy in copies.items():
            leaf = synced.leaves.owner(target)
            if leaf is not None and leaf.uid == copy.origin_uid:
                continue
            key = self.origin(kind, target, copy)
            if key is not None and not self._context.hosts(key.cluster):
                continue  # the syncer of another shard looks after it
            if key is None or not await self._down.remove_orphan(synced, target, copy, key):
                kept += 1
        return kept

    async def _listed(self, synced: TypeSync) -> CopyStore:
        """The copies of a type that is not watched, since nothing of it is assigned."""
        found = CopyStore(synced.leaves, lambda _: None)
        async for page in self._context.downstream.pages("", synced.kind, labels=self._selector()):
            for live in page:
                found.note(live)
        return found

    def _selector(self) -> str:
        return f"{DOWNSTREAM_CLUSTER}={self._context.registration.downstream_label}"

    def origin(self, kind: TypeName, target: CopyName, copy: SyncedCopy) -> SyncKey | None:
        """The object of which something is a copy; None if that is not known for certain."""
        registration = self._context.registration
        text = copy.locator or self._context.namespaces.known().get(target.namespace, "")
        locator = parse_locator(text)
        if locator is None or not copy.origin_name or not copy.origin_uid:
            return None
        if (locator.installation, locator.cluster_uid) != (
            registration.installation,
            registration.uid,
        ):
            return None
        if target.namespace and locator.downstream_namespace() != target.namespace:
            return None
        return SyncKey(kind, locator.logical_cluster, locator.namespace, copy.origin_name)

    async def _sweep_finalizers(self, kind: TypeName, synced: TypeSync) -> None:
        """Finalizers on objects that were assigned to another cluster meanwhile."""
        async for found in self._finalized(synced.kind):
            if synced.leaves.get(found) is None:
                await self._down.strip_finalizer(synced, SyncKey(kind, *found))

    async def has_finalized(self, kind: GroupVersionResource) -> bool:
        """Whether an object of a type has the finalizer of the syncer. Raises StatusError."""
        async for _ in self._finalized(kind):
            return True
        return False

    async def _finalized(self, kind: GroupVersionResource) -> AsyncIterator[ObjectKey]:
        registration = self._context.registration
        for workspace in {registration.workspace, *self._consumers(registration.workspace)}:
            finalizer = registration.finalizer_in(workspace)
            try:
                async for page in self._context.upstream.metadata(workspace, kind):
                    for one in page:
                        if one.has_finalizer(finalizer):
                            yield ObjectKey(workspace, one.namespace, one.name)
            except NotFound:
                continue  # the workspace does not have the type

    # --- namespaces

    async def remove_empty_namespaces(self) -> bool:
        """Whether some may have to be removed later."""
        namespaces = self._context.namespaces
        unused = self._unused_namespaces()
        await namespaces.remove_empty(
            unused,
            self._context.settings.namespace_grace,
            NamespaceContents(self._context.downstream).is_empty,
            lambda name: name in self._unused_namespaces(),
        )
        return bool(unused)

    def _unused_namespaces(self) -> set[str]:
        """Those that nothing is assigned to, as far as is known."""
        used: set[str] = set()
        for synced in self._context.types.values():
            used |= {leaf.target.namespace for leaf in synced.leaves}
            used |= {leaf.target.namespace for leaf in synced.leaves.released.values()}
            used |= {target.namespace for target, _ in synced.copies.items()}
        return {
            name
            for name, locator in self._context.namespaces.known().items()
            if name not in used and self._is_kept_here(locator)
        }

    def _is_kept_here(self, text: str) -> bool:
        """Whether this syncer decides about a namespace: that of a workspace of another shard is
        left to the syncer there.
        """
        locator = parse_locator(text)
        return locator is None or self._context.hosts(locator.logical_cluster)
