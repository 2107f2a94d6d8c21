"""Reading exports, schemas, bindings and definitions, as the controllers of APIs need them.

Where something may live on another shard, it is looked up; where only a part of it matters,
only that is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pykcp.aio.slices import in_slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Lister
from pykcp.controllers.apis.binding import BoundSchema, ResourceNames, Taken, held_by_crd, names_of
from pykcp.machinery import meta
from pykcp.machinery.kcp import bound_crd, hashes
from pykcp.machinery.kcp.claims import ClaimKey
from pykcp.machinery.kcp.resource_locks import lock_name
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
    GroupVersionResource,
)
from pykcp.registry.catalog.bindings import LARGE
from pykcp.registry.catalog.offered import OfferedSchemas
from pykcp.registry.indexes.apis import bindings_of, exports_with_schema
from pykcp.registry.lookup import ObjectLookup
from pykcp.steps import Steps
from pykcp.types import Object

_BINDINGS = kind_id(API_BINDINGS)
_CRDS = kind_id(CUSTOM_RESOURCE_DEFINITIONS)

_PAGE = 500
_KEEP = 4096


class ExportName(NamedTuple):
    """An export by the name of its logical cluster."""

    cluster: str
    name: str

    @property
    def label(self) -> str:
        """The value of the label on its bindings."""
        return hashes.export_label_value(self.cluster, self.name)


class Definition(NamedTuple):
    """A CRD, as far as it matters to who else wants its names."""

    group: str
    names: ResourceNames
    stored_versions: tuple[str, ...]
    is_established: bool
    is_terminating: bool


class _Names(msgspec.Struct, rename="camel"):
    plural: str = ""
    singular: str = ""
    short_names: tuple[str, ...] | None = None
    kind: str = ""
    list_kind: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    accepted_names: _Names = msgspec.field(default_factory=_Names)
    stored_versions: tuple[str, ...] | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Spec(msgspec.Struct):
    group: str = ""


class _CRD(msgspec.Struct):
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decode_crd = msgspec.json.Decoder(_CRD).decode


def export_reference(binding: Object) -> tuple[str, str] | None:
    """The path (or "") and name of the export that a binding, or a slice, names."""
    spec = binding.get("spec") or {}
    export = spec.get("export") or (spec.get("reference") or {}).get("export")
    return (export.get("path") or "", export.get("name") or "") if export else None


class ApiObjects:
    def __init__(self, lister: Lister, lookup: ObjectLookup) -> None:
        self.lister, self.lookup = lister, lookup
        self._definitions: BoundedCache[ObjectRef, tuple[int, Definition]] = BoundedCache(
            "crd-definitions", _KEEP
        )

    def export(self, cluster: str, path: str, name: str) -> Object | None:
        """An export as something in this cluster refers to it. Shared: copy before changing."""
        return self.lookup.find(API_EXPORTS, path or cluster, name)

    def has_export(self, cluster: str, path: str, name: str) -> bool:
        where = self.lookup.cluster_of(path or cluster)
        return where is not None and self.lookup.has(API_EXPORTS, where, name)

    async def read_export(self, cluster: str, path: str, name: str) -> Object | None:
        """The same; a large one is decoded in slices."""
        where = self.lookup.cluster_of(path or cluster)
        if where is None:
            return None
        return await in_slices(self.lookup.get_in_steps(API_EXPORTS, where, name), cluster)

    async def read_binding(self, key: ObjectKey) -> Object | None:
        """A binding of this shard as it is now, to be changed; decoded in slices if it is large."""
        return await self.lookup.read(API_BINDINGS, key.cluster, key.name)

    def is_large(self, binding: ObjectKey) -> bool:
        """Whether a binding is so large that a worker process computes its writes."""
        value = self.binding_value(binding)
        return value is not None and len(value) > LARGE

    def binding_value(self, key: ObjectKey) -> bytes | None:
        """A binding of this shard as it is stored."""
        return self.lister.value(ObjectRef(_BINDINGS, key.cluster, "", key.name))

    def schema(self, cluster: str, name: str) -> Object | None:
        return self.lookup.get(API_RESOURCE_SCHEMAS, cluster, name)

    def bindings_named(self, cluster: str, names: Iterable[str]) -> Iterator[Object]:
        """Those of them that there are."""
        for name in names:
            found = self.lookup.get(API_BINDINGS, cluster, name)
            if found is not None:
                yield found

    def definition(self, cluster: str, name: str) -> Definition | None:
        """A CRD of a logical cluster; decoded once per change."""
        ref = ObjectRef(_CRDS, cluster, "", name)
        version = self.lister.version(ref)
        known = self._definitions.get(ref)
        if known is not None and known[0] == version:
            return known[1]
        value = self.lister.value(ref) if version is not None else None
        if version is None or value is None:
            return None
        made = _definition(_decode_crd(value))
        self._definitions.put(ref, (version, made))
        return made

    def bound(self, uid: str) -> Definition | None:
        """The definition that a bound schema has become."""
        return self.definition(bound_crd.CLUSTER, uid)

    def crd_names(self, cluster: str) -> list[str]:
        return [key.name for key in self.lister.keys(CUSTOM_RESOURCE_DEFINITIONS, cluster)]

    def crd_locks(self, cluster: str) -> set[str]:
        """The names of the locks that the cluster's own CRDs hold, or may hold."""
        return {crd_lock(name) for name in self.crd_names(cluster)}

    def taken_by_crds(self, cluster: str, groups: set[str]) -> Iterator[Taken]:
        """The names that the cluster's own CRDs have in some groups."""
        for name in self.crd_names(cluster):
            if crd_group(name) in groups:
                found = self.definition(cluster, name)
                if found is not None:
                    yield Taken(held_by_crd(name), found.group, found.names)

    # --- who refers to whom

    def bindings_of(self, export: ExportName) -> Iterator[list[ObjectRef]]:
        """An export's bindings on this shard, a page at a time."""
        return self._pages(bindings_of(export.label), API_BINDINGS)

    def bindings_to(self, export: ExportName, cluster: str) -> Iterator[Object]:
        """The bindings of an export in one logical cluster. Shared: copy before changing."""
        index = bindings_of(export.label)
        after = ObjectRef(_BINDINGS, cluster, "", "")  # before all of the cluster's
        while found := self.lister.find(index, API_BINDINGS, after=after, limit=_PAGE):
            here = [ref.name for ref in found if ref.cluster == cluster]
            yield from self.bindings_named(cluster, here)
            if len(here) < len(found):
                return
            after = found[-1]

    def binding_names(self, cluster: str) -> set[str]:
        return {key.name for key in self.lister.keys(API_BINDINGS, cluster)}

    def is_bound(self, export: ExportName) -> bool:
        return next(self.bindings_of(export), None) is not None

    def exports_with_schema(self, cluster: str, schema: str) -> Iterator[ExportName]:
        for page in self._pages(exports_with_schema(cluster, schema), API_EXPORTS):
            for ref in page:
                yield ExportName(ref.cluster, ref.name)

    def published_exports(self, cluster: str) -> Iterator[ExportName]:
        """The exports of a logical cluster on another shard."""
        replica = self.lookup.replica
        for export in replica.all(API_EXPORTS, cluster) if replica is not None else ():
            yield ExportName(meta.cluster(export) or cluster, meta.name(export))

    def offered(self) -> OfferedSchemas:
        """For a look at many claims."""

        def exports_of(identity: str) -> Steps[Sequence[Object]]:
            found = yield from self.lookup.exports_of(identity)
            return sorted(found, key=lambda e: f"{meta.cluster(e)}/{meta.name(e)}")  # kcp's order

        return OfferedSchemas(exports_of)

    def claimed_schema(
        self, claim: ClaimKey, offered: OfferedSchemas
    ) -> Steps[tuple[Object, str] | None]:
        """The schema behind a claimed resource, and its logical cluster."""
        named = yield from offered.named(claim.identity, claim.group, claim.resource)
        for cluster, name, _ in named:
            schema = self.schema(cluster, name)
            if schema is not None:
                return schema, cluster
        return None

    def _pages(self, index: str, kind: GroupVersionResource) -> Iterator[list[ObjectRef]]:
        after: ObjectRef | None = None
        while found := self.lister.find(index, kind, after=after, limit=_PAGE):
            yield found
            after = found[-1]


def _definition(crd: _CRD) -> Definition:
    status = crd.status
    names = status.accepted_names
    true = {c.type for c in status.conditions or () if c.status == "True"}
    return Definition(
        crd.spec.group,
        ResourceNames(
            names.plural, names.singular, names.short_names or (), names.kind, names.list_kind
        ),
        status.stored_versions or (),
        "Established" in true,
        "Terminating" in true,
    )


def crd_group(name: str) -> str:
    """The group of the CRD of this name."""
    group = name.partition(".")[2]
    return "" if group == "core" else group


def crd_lock(name: str) -> str:
    """The name of the lock that the CRD of this name holds."""
    return lock_name(crd_group(name), name.partition(".")[0])


def schema_to_bind(schema: Object, cluster: str) -> BoundSchema:
    spec = schema["spec"]
    return BoundSchema(
        meta.name(schema), meta.uid(schema), cluster, spec["group"], names_of(spec["names"])
    )
