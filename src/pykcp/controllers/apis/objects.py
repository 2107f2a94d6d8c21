"""Reading exports, schemas, bindings and definitions, as the controllers of APIs need them.

Where something may live on another shard, it is looked up; where only a part of it matters,
only that is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from pykcp.caching import BoundedCache
from pykcp.controllers.apis.binding import BoundSchema, ResourceNames, Taken, held_by_crd, names_of
from pykcp.controllers.runtime.controller import ObjectKey
from pykcp.machinery import meta
from pykcp.machinery.kcp import bound_crd, hashes
from pykcp.machinery.kcp.resource_locks import lock_name
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
)
from pykcp.registry.indexes.apis import bindings_of, exports_with_schema
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.storage.interface import Store
from pykcp.types import Object

BINDINGS = kind_prefix(API_BINDINGS)
EXPORTS = kind_prefix(API_EXPORTS)
SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)
CRDS = kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)

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


def key_of(key: str) -> ObjectKey:
    return ObjectKey(*split_key(key)[1:])


def export_reference(binding: Object) -> tuple[str, str] | None:
    """The path (or "") and name of the export that a binding, or a slice, names."""
    spec = binding.get("spec") or {}
    export = spec.get("export") or (spec.get("reference") or {}).get("export")
    return (export.get("path") or "", export.get("name") or "") if export else None


class ApiObjects:
    def __init__(self, store: Store, lookup: ObjectLookup) -> None:
        self.store, self.lookup = store, lookup
        self._definitions: BoundedCache[str, tuple[int, Definition]] = BoundedCache(
            "crd-definitions", _KEEP
        )

    def export(self, cluster: str, path: str, name: str) -> Object | None:
        """An export as something in this cluster refers to it. Shared: copy before changing."""
        return self.lookup.find(API_EXPORTS, path or cluster, name)

    def schema(self, cluster: str, name: str) -> Object | None:
        return self.lookup.get(API_RESOURCE_SCHEMAS, cluster, name)

    def bindings(self, cluster: str) -> list[Object]:
        return self.lookup.all(API_BINDINGS, cluster)

    def bindings_named(self, cluster: str, names: Iterable[str]) -> Iterator[Object]:
        """Those of them that there are."""
        for name in names:
            found = self.lookup.get(API_BINDINGS, cluster, name)
            if found is not None:
                yield found

    def definition(self, cluster: str, name: str) -> Definition | None:
        """A CRD of a logical cluster; decoded once per change."""
        key = object_key(CRDS, cluster, "", name)
        entry = self.store.get(key)
        if entry is None:
            return None
        known = self._definitions.get(key)
        if known is not None and known[0] == entry.revision:
            return known[1]
        made = _definition(_decode_crd(entry.value))
        self._definitions.put(key, (entry.revision, made))
        return made

    def bound(self, uid: str) -> Definition | None:
        """The definition that a bound schema has become."""
        return self.definition(bound_crd.CLUSTER, uid)

    def crd_names(self, cluster: str) -> list[str]:
        return [split_key(key).name for key in self.store.keys(f"{CRDS}{cluster}/")]

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

    def bindings_of(self, export: ExportName) -> Iterator[list[str]]:
        """The keys of an export's bindings on this shard, a page at a time."""
        return self._pages(bindings_of(export.label), BINDINGS)

    def bindings_to(self, export: ExportName, cluster: str) -> Iterator[Object]:
        """The bindings of an export in one logical cluster. Shared: copy before changing."""
        place = f"{BINDINGS}{cluster}/"
        after = place
        while keys := self.store.lookup(bindings_of(export.label), after=after, limit=_PAGE):
            here = [split_key(key).name for key in keys if key.startswith(place)]
            yield from self.bindings_named(cluster, here)
            if len(here) < len(keys):
                return
            after = keys[-1]

    def binding_names(self, cluster: str) -> set[str]:
        return {split_key(key).name for key in self.store.keys(f"{BINDINGS}{cluster}/")}

    def is_bound(self, export: ExportName) -> bool:
        return next(self.bindings_of(export), None) is not None

    def exports_with_schema(self, cluster: str, schema: str) -> Iterator[ExportName]:
        for page in self._pages(exports_with_schema(cluster, schema), EXPORTS):
            for key in page:
                parts = split_key(key)
                yield ExportName(parts.cluster, parts.name)

    def published_exports(self, cluster: str) -> Iterator[ExportName]:
        """The exports of a logical cluster on another shard."""
        replica = self.lookup.replica
        for export in replica.all(API_EXPORTS, cluster) if replica is not None else ():
            yield ExportName(meta.cluster(export) or cluster, meta.name(export))

    def exports_with_identity(self, identity: str) -> list[Object]:
        """All of them, in kcp's order."""
        found = self.lookup.exports_of(identity)
        return sorted(found, key=lambda e: f"{meta.cluster(e)}/{meta.name(e)}")

    def schema_with_identity(
        self, identity: str, group: str, resource: str
    ) -> tuple[Object, str] | None:
        """The schema behind a resource of an identity, and its logical cluster."""
        for export in self.exports_with_identity(identity):
            for offered in (export.get("spec") or {}).get("resources") or ():
                if (offered.get("group") or "", offered["name"]) == (group, resource):
                    cluster = meta.cluster(export)
                    schema = self.schema(cluster, offered["schema"])
                    if schema is not None:
                        return schema, cluster
        return None

    def _pages(self, index: str, prefix: str) -> Iterator[list[str]]:
        after = ""
        while keys := self.store.lookup(index, after=after, limit=_PAGE):
            wanted = [key for key in keys if key.startswith(prefix)]
            if wanted:
                yield wanted
            after = keys[-1]


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
