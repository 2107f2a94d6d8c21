"""Keeps the APIResourceImports of one Cluster equal to the types that the cluster has.

CRDs are watched. Other types change with upgrades of the cluster only: discovery is read every 30
seconds, and schemas only if it, or the hashes of OpenAPI documents, changed. Two looks in a row
without a type are needed to remove its import, and a part of discovery that cannot be read removes
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pykcp.aio.owner import spawn
from pykcp.apis.catalog import builtin_definitions
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Change, Client
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.informer import Informer
from pykcp.machinery import meta
from pykcp.machinery.negotiation.openapi import Unconvertible
from pykcp.machinery.negotiation.resource import ImportedResource
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import StatusError
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.importing.discovery import ClusterTypes, TypeDefinition, is_wanted
from pykcp.multicluster.importing.objects import CORE, import_object
from pykcp.multicluster.names import IMPORTS
from pykcp.types import Object

_log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
_AGAIN_SECONDS = 5.0
_SETTLE_SECONDS = 0.2
"""CRDs are often created in groups."""
_NEVER_IMPORTED = frozenset((("", "namespaces"), ("", "events"), ("events.k8s.io", "events")))


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The Cluster whose types are imported."""

    workspace: str
    name: str
    uid: str
    wanted: tuple[str, ...]
    """Types: `deployments.apps`, `*.example.com`."""
    strategy: str = ""
    """`spec.schemaUpdateStrategy` of the Cluster; "" leaves that of existing imports."""


def is_built_in(resource: ImportedResource) -> bool:
    """Whether every workspace has the type anyway."""
    return any(
        (d.group, d.plural) == (resource.group, resource.plural) for d in builtin_definitions()
    )


def built_in_types(wanted: Iterable[str]) -> list[ImportedResource]:
    """The wanted types that every workspace has; those that clusters have, too, are synchronized."""
    names = frozenset(wanted)
    found = (
        ImportedResource(
            d.group, d.storage_version or d.versions[0], d.plural, d.singular, d.kind, d.namespaced
        )
        for d in builtin_definitions()
        if not d.ephemeral  # reviews are not stored anywhere
    )
    return [
        one
        for one in found
        if is_wanted(one, names) and (one.group, one.plural) not in _NEVER_IMPORTED
    ]


class CRDSignal:
    """Calls back when a CRD changes; an `ObjectHolder` that keeps versions only."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def put(self, value: bytes) -> Change | None:
        self._changed()
        return None

    def remove(self, value: bytes) -> Change | None:
        self._changed()
        return None

    def begin_replacing(self) -> None:
        """Nothing is kept."""

    def end_replacing(self) -> Iterable[Change]:
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing is kept."""


class TypeImporter:
    """`run` it; `error` says why types cannot be read, "" while they can."""

    def __init__(
        self,
        upstream: Client,
        downstream: RemoteClient,
        target: ImportTarget,
        changed: Callable[[], None] = lambda: None,
        *,
        prefix: str = "",
        compute: Compute = compute_here,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """`changed`: called when `error`, `types` or `failed` changed; `prefix`: what `downstream`
        puts before all paths.
        """
        self._upstream, self._downstream, self._target = upstream, downstream, target
        self._changed, self._prefix, self._poll_seconds = changed, prefix, poll_seconds
        self._compute = compute
        self.error: str | None = None
        """None: not known yet."""
        self.types: tuple[ImportedResource, ...] = ()
        """Wanted types that the cluster has."""
        self.failed: dict[str, str] = {}
        """Types that no schema describes, by name, with the reason."""
        self._missing: set[str] = set()
        self._seen = ""
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        signal = CRDSignal(self._crd_changed)
        informer = Informer(self._downstream, CUSTOM_RESOURCE_DEFINITIONS, signal, "")
        watching = spawn(informer.run(), "multicluster/crds")
        try:
            while True:
                self._due.clear()
                pause = await self._look_once()
                try:
                    async with asyncio.timeout(pause):
                        await self._due.wait()
                        await asyncio.sleep(_SETTLE_SECONDS)
                except TimeoutError:
                    pass
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _crd_changed(self) -> None:
        self._seen = ""
        self._due.set()

    async def _look_once(self) -> float:
        """Import what changed; returns the seconds until the next look."""
        before = (self.error, self.types, dict(self.failed))
        try:
            await self._look()
            self.error = ""
        except (StatusError, SendFailed) as error:
            self.error = str(error)
        if (self.error, self.types, self.failed) != before:
            self._changed()
        return _AGAIN_SECONDS if self.error or self._missing else self._poll_seconds

    async def _look(self) -> None:
        types = ClusterTypes(self._downstream, self._prefix, self._compute, self._target.workspace)
        named = {name.partition(".")[2] for name in self._target.wanted}
        groups = {"" if group == CORE else group for group in named}
        listed = await types.resources(None if "*" in self._target.wanted else groups)
        found = [
            one
            for one in listed
            if is_wanted(one, self._target.wanted)
            and (one.group, one.plural) not in _NEVER_IMPORTED
        ]
        seen = f"{found} {await types.fingerprint(found)}"
        if seen != self._seen:
            began = time.monotonic()
            await self._import(types, found)
            _log.debug(
                "%d types of %s were read in %.1f s",
                len(found),
                self._target.name,
                time.monotonic() - began,
            )
            self._seen = seen
        self.types = tuple(found)
        await self._remove_vanished(found, types)

    async def _import(self, types: ClusterTypes, found: Iterable[ImportedResource]) -> None:
        self.failed = {}
        types.expect(found)
        for resource in found:
            if is_built_in(resource):
                continue
            try:
                definition = await types.definition(resource)
            except Unconvertible as error:
                self.failed[resource.name] = str(error)
                continue
            await self._write(definition)

    async def _write(self, definition: TypeDefinition) -> None:
        target = self._target
        wanted = import_object(
            definition.resource,
            definition.schema,
            target.name,
            target.uid,
            target.strategy,
            definition.columns,
        )
        name = meta.name(wanted)
        live = await self._upstream.get(target.workspace, IMPORTS, name)
        if live is None:
            await self._upstream.create(target.workspace, IMPORTS, wanted)
            return
        if not target.strategy:  # users may set it on the import itself
            wanted["spec"]["schemaUpdateStrategy"] = live["spec"]["schemaUpdateStrategy"]
        owners, labels = wanted["metadata"]["ownerReferences"], wanted["metadata"]["labels"]
        is_labelled = labels.items() <= meta.labels(live).items()
        if (
            live["spec"] != wanted["spec"]
            or meta.owner_references(live) != owners
            or not is_labelled
        ):
            live["spec"] = wanted["spec"]
            live["metadata"]["ownerReferences"] = owners
            live["metadata"]["labels"] = {**meta.labels(live), **labels}
            await self._upstream.update(target.workspace, IMPORTS, live)

    async def _remove_vanished(
        self, found: Iterable[ImportedResource], types: ClusterTypes
    ) -> None:
        kept = {(one.group, one.version, one.plural) for one in found}
        missing: set[str] = set()
        for page in await self._own_imports():
            spec = page["spec"]
            group, version = (
                spec["groupVersion"].get("group") or "",
                spec["groupVersion"]["version"],
            )
            if (
                group,
                version,
                spec["plural"],
            ) in kept or f"{group}/{version}" in types.unavailable:
                continue
            name = meta.name(page)
            if name in self._missing:
                _log.info("the type of %s is no longer there", name)
                await self._upstream.delete(
                    self._target.workspace, IMPORTS, name, uid=meta.uid(page)
                )
            else:
                missing.add(name)
        self._missing = missing

    async def _own_imports(self) -> list[Object]:
        found = await self._upstream.list(self._target.workspace, IMPORTS)
        return [one for one in found if one["spec"]["location"] == self._target.name]
