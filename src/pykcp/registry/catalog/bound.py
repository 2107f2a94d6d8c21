"""Bound resources: what the APIBindings of a logical cluster add to what it serves.

A binding's status names the schemas that are bound. Each is kept as a CRD in the logical
cluster `system:bound-crds`, under the schema's UID, so that it outlives the schema; one
definition is made of it and shared by all clusters that bind it. The kinds that `root`
exports are known without that. Nothing exists for a cluster that nobody asks, and events
forget what changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import BOUND_CRDS, is_exported
from pykcp.apis.loader import shared_type
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
)
from pykcp.machinery.schema.crd import (
    SchemaStore,
    definition_from_resource_schema,
    definition_from_text,
)
from pykcp.machinery.schema.crd_text import read_crd
from pykcp.machinery.status import ServiceUnavailable
from pykcp.registry.catalog.custom import MakeCustom, ResourceVersions, stored_source
from pykcp.registry.catalog.virtual_storage import served_elsewhere, slice_kind
from pykcp.registry.codec import decode
from pykcp.registry.indexes.apis import exports_with_identity
from pykcp.registry.keys import WILDCARD, kind_prefix, object_key, split_key
from pykcp.registry.resource import Resource
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_BINDINGS = kind_prefix(API_BINDINGS)
_EXPORTS = kind_prefix(API_EXPORTS)
_SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)
_CRDS = kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)
_KEEP_CLUSTERS = 16384
_KEEP_DEFINITIONS = 2048
_ROOT_EXPORTS = f"{_EXPORTS}{clusters.ROOT}/"


class BoundResource(NamedTuple):
    """One resource that a binding brings."""

    schema_uid: str
    identity: str
    binding: str
    export_cluster: str
    export: str
    is_leaving: bool
    """The binding is being deleted: what is there can only be read and removed."""
    is_stored: bool = True
    """Objects of it were stored here; otherwise its export says where they are."""


class VirtualStorage(NamedTuple):
    """Where the objects of a bound resource are that are not here."""

    bound: BoundResource
    storage: Object
    """The `storage.virtual` of the export's resource."""


BoundSet = Mapping[tuple[str, str], BoundResource]
"""By group and plural."""
NOTHING: BoundSet = {}


class _Schema(msgspec.Struct, rename="camel"):
    UID: str = ""
    identity_hash: str = ""


class _Bound(msgspec.Struct, rename="camel"):
    resource: str
    schema: _Schema
    group: str = ""
    storage_versions: tuple[str, ...] | None = None


class _Status(msgspec.Struct, rename="camel"):
    bound_resources: tuple[_Bound, ...] = ()
    api_export_cluster_name: str = ""


class _ExportReference(msgspec.Struct):
    name: str = ""


class _Reference(msgspec.Struct):
    export: _ExportReference = msgspec.field(default_factory=_ExportReference)


class _Spec(msgspec.Struct):
    reference: _Reference = msgspec.field(default_factory=_Reference)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    deletion_timestamp: str | None = None


class _Binding(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode_binding = msgspec.json.Decoder(_Binding).decode

FindSystem = Callable[[str, str, str], Resource | None]
FindStorage = Callable[[BoundResource, str, str], Object | None]
"""The `storage.virtual` of a bound resource, by group and plural; None for ordinary ones."""


class BoundResources:
    """A source of the directory, and what else is asked about bindings."""

    def __init__(self, store: Store, make: MakeCustom, find_system: FindSystem) -> None:
        self._store = store
        self._make = make
        self._find_system = find_system
        self.find_storage: FindStorage = lambda *_: None
        self._sets: OrderedDict[str, BoundSet] = OrderedDict()
        self._lists: OrderedDict[str, tuple[ResourceDefinition, ...]] = OrderedDict()
        self._made: OrderedDict[tuple[object, ...], ResourceVersions] = OrderedDict()
        """By schema, identity, whether the binding is leaving, and the kind of storage."""
        self._root_identities: frozenset[str] | None = None
        self._schemas = SchemaStore(shared_type)
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            key = event.key
            if key.startswith(_BINDINGS):
                cluster = split_key(key).cluster
                self._sets.pop(cluster, None)
                self._lists.pop(cluster, None)
            elif key.startswith(_ROOT_EXPORTS):
                self._root_identities = None
            elif key.startswith(_CRDS) and split_key(key).cluster == BOUND_CRDS:
                self._forget(split_key(key).name)

    def _forget(self, uid: str) -> None:
        for known in [k for k in self._made if k[0] == uid]:
            del self._made[known]
        self._lists.clear()  # rare: a schema is bound for the first time, or for the last

    def of_cluster(self, cluster: str) -> BoundSet:
        """What the bindings of a cluster bring."""
        known = self._sets.get(cluster)
        if known is None:
            known = self._sets[cluster] = dict(self._read(cluster)) or NOTHING
            if len(self._sets) > _KEEP_CLUSTERS:
                self._sets.popitem(last=False)
        return known

    def provider(self, cluster: str, group: str, plural: str) -> str | None:
        """The logical cluster of the export that a cluster has a resource from."""
        found = self.of_cluster(cluster).get((group, plural))
        return found.export_cluster if found is not None else None

    def _read(self, cluster: str) -> Iterator[tuple[tuple[str, str], BoundResource]]:
        for key in self._store.keys(f"{_BINDINGS}{cluster}/"):
            entry = self._store.get(key)
            if entry is None:
                continue
            binding = _decode_binding(entry.value)
            for bound in binding.status.bound_resources:
                yield (
                    (bound.group, bound.resource),
                    BoundResource(
                        bound.schema.UID,
                        bound.schema.identity_hash,
                        binding.metadata.name,
                        binding.status.api_export_cluster_name,
                        binding.spec.reference.export.name,
                        bool(binding.metadata.deletion_timestamp),
                        bool(bound.storage_versions),
                    ),
                )

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str
    ) -> Resource | None:
        if cluster == WILDCARD:
            return self._of_identity(group, version, plural, identity) if identity else None
        if not cluster:
            return None
        bound = self.of_cluster(cluster).get((group, plural))
        if bound is None or (identity and identity != bound.identity):
            return None
        if self.is_kcp(group, plural, bound.identity):
            return self._find_system(group, version, plural)
        return self._of(bound, group, plural).get(version)

    def virtual_storage(self, cluster: str, group: str, plural: str) -> VirtualStorage | None:
        """Where the objects of a resource are that a cluster has bound, if not here."""
        bound = self.of_cluster(cluster).get((group, plural))
        storage = self._storage(bound, group, plural) if bound is not None else None
        if bound is None or storage is None:
            return None
        return VirtualStorage(bound, storage)

    def _storage(self, bound: BoundResource, group: str, plural: str) -> Object | None:
        return None if bound.is_stored else self.find_storage(bound, group, plural)

    def _of(self, bound: BoundResource, group: str, plural: str) -> ResourceVersions:
        return self._resources(bound, self._storage(bound, group, plural))

    def is_kcp(self, group: str, plural: str, identity: str) -> bool:
        """Whether this is one of kcp's own kinds, rather than somebody's namesake of it."""
        return is_exported(group, plural) and identity in self._identities_of_root()

    def _identities_of_root(self) -> frozenset[str]:
        if self._root_identities is None:
            exports = [self._store.get(key) for key in self._store.keys(_ROOT_EXPORTS)]
            self._root_identities = frozenset(
                (decode(entry.value).get("status") or {}).get("identityHash") or ""
                for entry in exports
                if entry is not None
            ) - {""}
        return self._root_identities

    def _resources(self, bound: BoundResource, storage: Object | None = None) -> ResourceVersions:
        kind = "" if storage is None else slice_kind(storage)
        key = (bound.schema_uid, bound.identity, bound.is_leaving, kind)
        made = self._made.get(key)
        if made is None:
            definition, revision = self._define(bound)
            if storage is not None:
                definition = served_elsewhere(definition, kind)
            made = self._made[key] = ResourceVersions(
                definition.versions, lambda version: self._make(definition, version, revision)
            )
            if len(self._made) > _KEEP_DEFINITIONS:
                self._made.popitem(last=False)
        return made

    def _define(self, bound: BoundResource) -> tuple[ResourceDefinition, int]:
        entry = self._store.get(object_key(_CRDS, BOUND_CRDS, "", bound.schema_uid))
        if entry is None:
            raise ServiceUnavailable("the schema of this resource is not here yet, try again later")
        definition = definition_from_text(
            read_crd(entry.value),
            self._schemas,
            stored_source(self._store, entry.key),
            origin=BOUND_CRDS,
        )
        return self._completed(definition, bound), entry.revision

    def _completed(
        self, definition: ResourceDefinition, bound: BoundResource
    ) -> ResourceDefinition:
        verbs = definition.verbs
        if bound.is_leaving:
            verbs = tuple(verb for verb in verbs if verb != "create")
        return replace(
            definition,
            identity=bound.identity,
            verbs=verbs,
            is_leaving=bound.is_leaving,
            fingerprint=f"{bound.schema_uid}:{bound.is_leaving}",
            stored_versions=definition.stored_versions or (definition.storage_version,),
        )

    def _of_identity(self, group: str, version: str, plural: str, identity: str) -> Resource | None:
        """The resource as the first export of this identity defines it."""
        if self.is_kcp(group, plural, identity):
            return self._find_system(group, version, plural)
        for key in self._store.lookup(exports_with_identity(identity)):
            if not key.startswith(_EXPORTS):
                continue
            offered = self._exported(key, group, plural)
            found = self.of_schema(offered[0], identity, offered[1]) if offered is not None else {}
            if version in found:
                return found[version]
        return None

    def of_schema(
        self, schema: Object, identity: str, storage: Object | None = None
    ) -> Mapping[str, Resource]:
        """What a schema defines under an identity, by version, bound by anybody or not.

        `storage`: the `storage.virtual` of the export's resource, if it has one.
        """
        spec, uid = schema["spec"], schema["metadata"]["uid"]
        group, plural = spec.get("group") or "", spec["names"]["plural"]
        if self.is_kcp(group, plural, identity):
            names = (v["name"] for v in spec["versions"] if v.get("served", True))
            found = {name: self._find_system(group, name, plural) for name in names}
            return {name: resource for name, resource in found.items() if resource is not None}
        bound = BoundResource(uid, identity, "", "", "", is_leaving=False)
        if self._store.get(object_key(_CRDS, BOUND_CRDS, "", uid)) is not None:
            return self._resources(bound, storage)
        # Nobody has bound it, so there is nothing yet.
        definition = self._completed(
            definition_from_resource_schema(
                schema, self._schemas, origin=BOUND_CRDS, identity=identity
            ),
            bound,
        )
        if storage is not None:
            definition = served_elsewhere(definition, slice_kind(storage))
        return {name: self._make(definition, name, 0) for name in definition.versions}

    def _exported(
        self, export_key: str, group: str, plural: str
    ) -> tuple[Object, Object | None] | None:
        """The schema of an exported resource, and its virtual storage if it has any."""
        entry = self._store.get(export_key)
        if entry is None:
            return None
        for resource in (decode(entry.value).get("spec") or {}).get("resources") or ():
            if (resource.get("group") or "", resource["name"]) == (group, plural):
                cluster = split_key(export_key).cluster
                found = self._store.get(object_key(_SCHEMAS, cluster, "", resource["schema"]))
                storage = (resource.get("storage") or {}).get("virtual")
                return (decode(found.value), storage) if found is not None else None
        return None

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """kcp's own kinds can be read over all clusters as metadata without their identity."""
        return self._find_system(group, version, plural) if is_exported(group, plural) else None

    def is_loaded(self, cluster: str) -> bool:
        return cluster in self._lists or cluster in ("", WILDCARD)

    async def load(self, cluster: str) -> None:
        """Make what the cluster's bindings bring, in slices; `definitions` then finds it made."""
        if self.is_loaded(cluster):
            return
        slices = Slices()
        for _ in self._definitions(cluster):
            if slices.is_over():
                await slices.next()
        self.definitions(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if cluster in ("", WILDCARD):
            return ()
        known = self._lists.get(cluster)
        if known is None:
            known = self._lists[cluster] = tuple(self._definitions(cluster))
            if len(self._lists) > _KEEP_CLUSTERS:
                self._lists.popitem(last=False)
        return known

    def _definitions(self, cluster: str) -> Iterator[ResourceDefinition]:
        for (group, plural), bound in sorted(self.of_cluster(cluster).items()):
            if self.is_kcp(group, plural, bound.identity):
                resource = self._find_system(group, "v1alpha1", plural)
                if resource is not None:
                    yield resource.definition
                continue
            try:
                resources = self._of(bound, group, plural)
            except ServiceUnavailable:
                # A status may name any schema. The others, and the end of the workspace, do not
                # wait for one that nobody has bound; the list is made anew when it is there.
                continue
            if resources:
                yield next(iter(resources.values())).definition
