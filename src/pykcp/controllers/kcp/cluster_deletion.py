"""The end of a logical cluster: all that is in it, then itself, then the workspace that owned it.

Content is found by key prefix, kind by kind. As long as nothing in the cluster has finalizers
that somebody else must take away, all of it goes in one write together with the LogicalCluster
and its Workspace. Otherwise what can go goes, the rest is named in a condition and looked at
again when content goes. Roles stay until the end, so that those who must still do something
can. A write that was admitted before the cluster was gone may commit after it: what appears in
a cluster that has just gone is swept up.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.controllers.runtime.controller import Controller, Later, ObjectKey
from pykcp.controllers.runtime.feed import EVERYTHING, LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.objects import Metadata, metadata_of
from pykcp.machinery import meta
from pykcp.machinery.condition_marks import mark_false, mark_true
from pykcp.machinery.kcp_conditions import INFO
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES, GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.directory import Directory
from pykcp.registry.indexes import DELETING
from pykcp.registry.keys import kind_prefix, resource_prefix, split_key
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import Resource
from pykcp.registry.together import Gone, Write
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

NAME = "kcp-logicalcluster-deletion"
_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_DELETING = b'"deletionTimestamp":"'
_RBAC = "rbac.authorization.k8s.io"
_OWN_FINALIZERS = frozenset(
    ("apis.kcp.io/apibinding-finalizer", "customresourcecleanup.apiextensions.k8s.io")
)
"""Theirs who would delete what goes here anyway."""
_CHUNK = 50
"""Of one transaction: etcd takes no more than 128 operations, and a deletion is two of them."""
_AT_A_TIME = 32
"""Deletions under way at a time: enough to share commits, few enough to let others in between."""
_LOOK_AGAIN = 8.0
_GATHER = 0.02
_GATHER_EACH = 0.0003
"""Seconds; ten times what it takes to look at one object."""
_SWEEP_FOR = 10.0


class Item(NamedTuple):
    resource: Resource
    metadata: Metadata

    @property
    def is_kept(self) -> bool:
        """Whether somebody else has to let go of it first."""
        finalizers = self.metadata.finalizers or ()
        return any(f not in _OWN_FINALIZERS for f in finalizers)


class SweptCluster(NamedTuple):
    """A cluster that is gone and in which something appeared since."""

    cluster: str


class ClusterDeletion:
    def __init__(
        self,
        store: Store,
        client: LocalClient,
        directory: Directory,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._store, self._client, self._directory = store, client, directory
        self._now = now
        self._waiting: dict[str, float] = {}
        """Clusters whose content waits for finalizers, and how many seconds of news to gather
        before looking again: the more there is to look at, the longer."""
        self._gone: dict[str, float] = {}
        """Clusters that went in the last seconds, and when."""
        self.controller: Controller[ObjectKey | SweptCluster] = Controller(
            NAME, self.reconcile, workers=16, metrics=metrics
        )

    def follow(self, feed: LogFeed) -> None:
        feed.on(_PREFIX, self._on_cluster)
        feed.on(EVERYTHING, self._on_anything)
        feed.at_start(self._resume)

    def _on_cluster(self, event: Event) -> None:
        cluster = split_key(event.key).cluster
        if event.deleted:
            self._waiting.pop(cluster, None)
            self._remember(cluster)
        elif _DELETING in event.value:
            self.controller.add(_key(cluster))

    def _remember(self, cluster: str) -> None:
        now = time.monotonic()
        while self._gone:
            oldest = next(iter(self._gone))
            if now - self._gone[oldest] < _SWEEP_FOR:
                break
            del self._gone[oldest]
        self._gone[cluster] = now

    def _on_anything(self, event: Event) -> None:
        if self._waiting and event.deleted:
            cluster = split_key(event.key).cluster
            pause = self._waiting.get(cluster)
            if pause is not None:
                self.controller.add_after(_key(cluster), pause)
        elif self._gone and event.created:
            cluster = split_key(event.key).cluster
            if cluster in self._gone and not event.key.startswith(_PREFIX):
                self.controller.add_after(SweptCluster(cluster), _GATHER)

    async def _resume(self) -> None:
        for key in self._store.lookup(DELETING):
            if key.startswith(_PREFIX):
                self.controller.add(_key(split_key(key).cluster))

    async def reconcile(self, key: ObjectKey | SweptCluster) -> float | None:
        cluster = key.cluster
        found = self._client.get(cluster, LOGICAL_CLUSTERS, "cluster")
        if isinstance(key, SweptCluster):
            if found is None:
                await self._sweep(cluster)
            return None
        if found is None or not meta.has_finalizer(found, lifecycle.DELETION_FINALIZER):
            self._waiting.pop(cluster, None)
            return None
        if not meta.is_deleting(found):
            return None
        # Before looking, so that nothing is missed in between.
        self._waiting.setdefault(cluster, _GATHER)
        items = await self._content(cluster)
        if any(item.is_kept for item in items):
            return await self._delete_what_goes(found, items)
        await self._remove(found, items)
        self._waiting.pop(cluster, None)
        return None

    async def _content(self, cluster: str) -> list[Item]:
        """Everything in the cluster but its LogicalCluster."""
        items: list[Item] = []
        seen = {_PREFIX}
        for definition in self._directory.definitions(cluster):
            if definition.ephemeral or definition.stored_as or not definition.all_versions:
                continue
            prefix = resource_prefix(*definition.storage, definition.identity)
            if prefix in seen:
                continue
            seen.add(prefix)
            keys = self._store.keys(f"{prefix}{cluster}/")
            if not keys:
                continue
            resource = self._client.resource(cluster, _served(definition))
            for start in range(0, len(keys), _CHUNK):
                found = (self._store.get(key) for key in keys[start : start + _CHUNK])
                items += [Item(resource, metadata_of(e.value)) for e in found if e is not None]
                if len(keys) > _CHUNK:
                    await asyncio.sleep(0)
        return items

    async def _delete_what_goes(self, cluster: Object, items: list[Item]) -> float:
        name = meta.cluster(cluster)
        self._waiting[name] = max(_GATHER, len(items) * _GATHER_EACH)
        errors: list[str] = []
        kept = [item for item in items if item.is_kept]
        holds_kept = _holders(kept)
        going: list[Write] = []
        marked: list[Item] = []
        for item in items:
            if item.is_kept or holds_kept(item):
                marked.append(item)
            elif item.resource.group != _RBAC or item.resource.namespaced:
                going.append(_gone(name, item))
        for start in range(0, len(marked), _AT_A_TIME):
            some = marked[start : start + _AT_A_TIME]
            for found in await asyncio.gather(*(self._delete(name, item) for item in some)):
                errors += found
        for start in range(0, len(going), _CHUNK):
            try:
                await self._client.write_together(going[start : start + _CHUNK])
            except StatusError as error:
                errors.append(error.message)
        await self._report(cluster, remains_message(kept), errors)
        if errors:
            raise Later("; ".join(errors[:3]))
        return _LOOK_AGAIN

    async def _delete(self, cluster: str, item: Item) -> list[str]:
        """Mark it as deleted; whoever holds it sees that. Errors, if any."""
        metadata = item.metadata
        if metadata.is_deleting or item.resource.plural in ("apibindings", _CRDS):
            return []  # these go with what they brought
        kind = GroupVersionResource(
            item.resource.group, item.resource.version, item.resource.plural
        )
        try:
            await self._client.delete(
                cluster, kind, metadata.name, metadata.namespace, propagation="Background"
            )
        except StatusError as error:
            return [error.message]
        return []

    async def _report(self, cluster: Object, message: str, errors: list[str]) -> None:
        """What is left, and who keeps it, as a condition."""
        name, now = meta.cluster(cluster), self._now()

        def mark(live: Object) -> None:
            if message:
                mark_false(
                    live,
                    lifecycle.CONTENT_DELETED,
                    "SomeResourcesRemain",
                    message,
                    now,
                    severity=INFO,
                )
            elif errors:
                failed = f"[{', '.join(errors)}]" if len(errors) > 1 else errors[0]
                mark_false(live, lifecycle.CONTENT_DELETED, "ContentDeletionFailed", failed, now)
            else:
                mark_true(live, lifecycle.CONTENT_DELETED, now)

        try:
            await self._client.change(name, LOGICAL_CLUSTERS, "cluster", mark, subresource="status")
        except NotFound:
            return

    async def _remove(self, cluster: Object, items: list[Item]) -> None:
        """Nothing is in the way: roles, the cluster and its workspace go last, and at once."""
        name = meta.cluster(cluster)
        writes: list[Write] = [_gone(name, item) for item in sorted(items, key=_is_role)]
        last = self._itself(cluster)
        while len(writes) > _CHUNK:
            await self._client.write_together(writes[:_CHUNK])
            del writes[:_CHUNK]
        await self._client.write_together([*writes, *last])

    def _itself(self, cluster: Object) -> list[Write]:
        name, client = meta.cluster(cluster), self._client

        def let_go(live: Object) -> None:
            left = [f for f in meta.finalizers(live) if f != lifecycle.DELETION_FINALIZER]
            live["metadata"]["finalizers"] = left

        writes: list[Write] = [client.changed(name, LOGICAL_CLUSTERS, "cluster", let_go)]
        if meta.finalizers(cluster) != [lifecycle.DELETION_FINALIZER]:
            return writes  # terminators are still at work
        owner = (cluster.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource:
            return writes
        workspace = client.get(owner["cluster"], WORKSPACES, owner["name"])
        if (
            workspace is not None
            and meta.uid(workspace) == owner["uid"]
            and meta.finalizers(workspace) == [lifecycle.WORKSPACE_FINALIZER]
            and meta.is_deleting(workspace)
        ):
            resource = client.resource(owner["cluster"], WORKSPACES)
            writes.append(Gone(resource, owner["cluster"], "", owner["name"]))
        return writes

    async def _sweep(self, cluster: str) -> None:
        items = await self._content(cluster)
        for start in range(0, len(items), _CHUNK):
            chunk = [_gone(cluster, item) for item in items[start : start + _CHUNK]]
            await self._client.write_together(chunk)


_CRDS = "customresourcedefinitions"


def _served(definition: ResourceDefinition) -> GroupVersionResource:
    versions = definition.versions or tuple(v.name for v in definition.all_versions)
    return GroupVersionResource(definition.group, versions[0], definition.plural)


def _gone(cluster: str, item: Item) -> Gone:
    return Gone(item.resource, cluster, item.metadata.namespace, item.metadata.name)


def _is_role(item: Item) -> bool:
    return item.resource.group == _RBAC


def _holders(kept: list[Item]) -> Callable[[Item], bool]:
    """Whether something must stay because something kept depends on it."""
    namespaces = {item.metadata.namespace for item in kept}
    has_custom = any(not item.resource.definition.strategy for item in kept)

    def holds(item: Item) -> bool:
        resource = item.resource
        if (resource.group, resource.plural) == ("", "namespaces"):
            return item.metadata.name in namespaces
        return has_custom and resource.plural in ("apibindings", _CRDS)

    return holds


def remains_message(kept: list[Item]) -> str:
    """What is left in a cluster, in kcp's words."""
    by_kind: Counter[str] = Counter()
    by_finalizer: Counter[str] = Counter()
    for item in kept:
        by_kind[f"{item.resource.plural}.{item.resource.group}"] += 1
        by_finalizer.update(f for f in item.metadata.finalizers or () if f not in _OWN_FINALIZERS)
    parts = []
    if by_kind:
        counts = sorted(f"{kind} has {n} resource instances" for kind, n in by_kind.items())
        parts.append(f"Some resources are remaining: {', '.join(counts)}")
    if by_finalizer:
        counts = sorted(f"{name} in {n} resource instances" for name, n in by_finalizer.items())
        parts.append(
            f"Some content in the logical cluster has finalizers remaining: {', '.join(counts)}"
        )
    return "; ".join(parts)


def _key(cluster: str) -> ObjectKey:
    return ObjectKey(cluster, "", "cluster")
