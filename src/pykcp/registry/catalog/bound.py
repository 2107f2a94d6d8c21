"""Bound resources: what the APIBindings of a logical cluster add to what it serves.

A binding's status names the schemas that are bound (`bindings`); resources are made of them
(`bound_definitions`) and listed for discovery (`bound_discovery`). Here a request's cluster,
group and resource are resolved to one of them. The kinds that `root` exports are known without
a binding. Nothing exists for a cluster that is not in use, and events drop what changed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import merge
from typing import Any

import msgspec
import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import BOUND_CRDS, is_exported
from pykcp.machinery.resources import API_EXPORTS, API_RESOURCE_SCHEMAS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.registry.catalog.bindings import (
    BINDINGS,
    BoundKey,
    BoundResource,
    BoundSet,
    BoundSets,
    VirtualStorage,
)
from pykcp.registry.catalog.bound_definitions import CRDS, BoundDefinitions
from pykcp.registry.catalog.bound_discovery import BoundDiscovery
from pykcp.registry.catalog.custom import MakeCustom, ResourceVersions, stored_source
from pykcp.registry.catalog.root_identities import RootIdentities
from pykcp.registry.catalog.schema_text import SchemaText, schema_text
from pykcp.registry.indexes.apis import exports_with_identity
from pykcp.registry.keys import WILDCARD, kind_prefix, object_key, split_key
from pykcp.registry.resource import Resource
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_EXPORTS = kind_prefix(API_EXPORTS)
_SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)

FindSystem = Callable[[str, str, str], Resource | None]
FindStorage = Callable[[BoundResource, str, str], Object | None]
"""The `storage.virtual` of a bound resource, by group and plural; None for ordinary ones."""
FindPublished = Callable[[str, str, str], tuple[Object, Object | None] | None]
"""The schema behind a resource of an identity, and its `storage.virtual`, by group and plural."""


class _Offered(msgspec.Struct):
    name: str
    schema: str
    group: str = ""
    storage: dict[str, Any] | None = None


class _ExportSpec(msgspec.Struct):
    resources: tuple[_Offered, ...] | None = None


class _Export(msgspec.Struct):
    spec: _ExportSpec = msgspec.field(default_factory=_ExportSpec)


_decode_export = msgspec.json.Decoder(_Export).decode


class BoundResources:
    """A source of the directory, and what else is asked about bindings."""

    def __init__(
        self,
        store: Store,
        make: MakeCustom,
        find_system: FindSystem,
        find_storage: FindStorage | None = None,
        find_published: FindPublished | None = None,
    ) -> None:
        """`find_storage`: None if there are no virtual resources; `find_published`: what exports
        of other shards define.
        """
        self._store = store
        self._find_system = find_system
        self._find_storage, self._find_published = find_storage, find_published
        self._sets = BoundSets(store)
        self._root_identities = RootIdentities(store)
        self._defined = BoundDefinitions(store, make)
        self._discovery = BoundDiscovery(self._definitions)
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            key = event.key
            if key.startswith(BINDINGS):
                cluster = split_key(key).cluster
                self._sets.changed(event, cluster)
                self._discovery.forget(cluster)
            elif key.startswith(CRDS) and split_key(key).cluster == BOUND_CRDS:
                self._defined.forget(split_key(key).name)
                self._discovery.forget_all()
            else:
                self._root_identities.changed(key)

    def of_cluster(self, cluster: str) -> BoundSet:
        """What the bindings of a cluster bring."""
        return self._sets.of_cluster(cluster)

    def in_steps(self, cluster: str) -> Steps[BoundSet]:
        """The same, for who can wait: the first look at many large bindings takes long."""
        return self._sets.in_steps(cluster)

    def provider(self, cluster: str, group: str, plural: str) -> str | None:
        """The logical cluster of the export that a cluster has a resource from."""
        found = self.of_cluster(cluster).get((group, plural))
        return found.export_cluster if found is not None else None

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
        return self._resources(bound, group, plural).get(version)

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """kcp's own kinds can be read over all clusters as metadata without their identity."""
        return self._find_system(group, version, plural) if is_exported(group, plural) else None

    def is_loaded(self, cluster: str) -> bool:
        return self._discovery.is_loaded(cluster)

    async def load(self, cluster: str) -> None:
        await self._discovery.load(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._discovery.definitions(cluster)

    def virtual_storage(self, cluster: str, group: str, plural: str) -> VirtualStorage | None:
        """Where the objects of a resource are that a cluster has bound; None if they are here."""
        bound = self.of_cluster(cluster).get((group, plural))
        storage = self._storage(bound, group, plural) if bound is not None else None
        if bound is None or storage is None:
            return None
        return VirtualStorage(bound, storage)

    def is_kcp(self, group: str, plural: str, identity: str) -> bool:
        """Whether this is one of kcp's own kinds, not a kind of the same name by a tenant."""
        return is_exported(group, plural) and identity in self._root_identities

    def schema(self, cluster: str, name: str) -> SchemaText | None:
        """A schema of this shard."""
        key = object_key(_SCHEMAS, cluster, "", name)
        return schema_text(stored_source(self._store, key)) if self._store.get(key) else None

    def of_schema(
        self, schema: SchemaText, identity: str, storage: Object | None = None
    ) -> Mapping[str, Resource]:
        """What a schema defines under an identity, by version, whether it is bound or not.

        `storage`: the `storage.virtual` of the export's resource, if it has one.
        """
        group, plural = schema.group, schema.plural
        if self.is_kcp(group, plural, identity):
            found = {name: self._find_system(group, name, plural) for name in schema.versions}
            return {name: resource for name, resource in found.items() if resource is not None}
        return self._defined.of_schema(schema, identity, storage)

    def _storage(self, bound: BoundResource, group: str, plural: str) -> Object | None:
        if bound.is_stored or self._find_storage is None:
            return None
        return self._find_storage(bound, group, plural)

    def _resources(self, bound: BoundResource, group: str, plural: str) -> ResourceVersions:
        return self._defined.resources(bound, self._storage(bound, group, plural))

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
        published = None
        if self._find_published is not None:
            published = self._find_published(identity, group, plural)
        if published is None:
            return None
        schema = schema_text(partial(orjson.dumps, published[0]))
        return self.of_schema(schema, identity, published[1]).get(version)

    def _exported(
        self, export_key: str, group: str, plural: str
    ) -> tuple[SchemaText, Object | None] | None:
        """The schema of an exported resource, and its virtual storage if it has any."""
        entry = self._store.get(export_key)
        if entry is None:
            return None
        for resource in _decode_export(entry.value).spec.resources or ():
            if (resource.group, resource.name) == (group, plural):
                found = self.schema(split_key(export_key).cluster, resource.schema)
                storage = (resource.storage or {}).get("virtual")
                return (found, storage) if found is not None else None
        return None

    def _definitions(self, cluster: str) -> Steps[tuple[ResourceDefinition, ...]]:
        """By group and name. A status may list tens of thousands of resources."""
        found = yield from self._sets.in_steps(cluster)
        parts: list[list[BoundKey]] = []
        for part in found.maps if isinstance(found, ChainMap) else (found,):
            parts.append(sorted(part))
            yield
        made: dict[BoundKey, ResourceDefinition] = {}
        for key in merge(*parts):
            yield
            group, plural = key
            definition = self._definition(group, plural, found[key]) if key not in made else None
            if definition is not None:
                made[key] = definition
        return tuple(made.values())

    def _definition(
        self, group: str, plural: str, bound: BoundResource
    ) -> ResourceDefinition | None:
        if self.is_kcp(group, plural, bound.identity):
            resource = self._find_system(group, "v1alpha1", plural)
            return resource.definition if resource is not None else None
        try:
            resources = self._resources(bound, group, plural)
        except ServiceUnavailable:
            # A status may name any schema. The others, and the deletion of the workspace,
            # must not wait for one that is bound nowhere; the list is made again when its
            # CRD appears.
            return None
        return resources.definition if resources else None
