"""From a bound schema to resources that can be served.

Each schema that is bound anywhere is kept as a CRD in the logical cluster `system:bound-crds`,
under the schema's UID, so that it outlives the schema. One definition is made of it and shared
by all clusters that bind it.
"""

from __future__ import annotations

from dataclasses import replace

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import BOUND_CRDS
from pykcp.apis.loader import shared_type
from pykcp.caching import BoundedCache
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.crd import SchemaStore, definition_from_text
from pykcp.machinery.schema.crd_text import read_crd
from pykcp.machinery.status import ServiceUnavailable
from pykcp.registry.catalog.bindings import BoundResource
from pykcp.registry.catalog.custom import (
    MakeCustom,
    ResourceVersions,
    as_kubernetes,
    stored_source,
)
from pykcp.registry.catalog.schema_text import SchemaText, as_definition
from pykcp.registry.catalog.virtual_storage import served_elsewhere, slice_kind
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.resource import Resource
from pykcp.storage.interface import Store
from pykcp.types import Object

CRDS = kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)
_KEEP = 2048


class BoundDefinitions:
    def __init__(self, store: Store, make: MakeCustom) -> None:
        self._store, self._make = store, make
        self._made: BoundedCache[tuple[object, ...], ResourceVersions] = BoundedCache(
            "bound-definitions", _KEEP
        )
        """By schema, identity, whether the binding is terminating, and the kind of storage."""
        self._schemas = SchemaStore(shared_type)

    def forget(self, uid: str) -> None:
        """The CRD of a bound schema changed, came or went."""
        for known in [k for k in self._made if k[0] == uid]:
            self._made.pop(known)

    def resources(self, bound: BoundResource, storage: Object | None = None) -> ResourceVersions:
        """A bound resource in all its versions; ServiceUnavailable if its schema is not here yet.

        `storage`: the `storage.virtual` of the export's resource, if it has one.
        """
        kind = "" if storage is None else slice_kind(storage)
        key = (bound.schema_uid, bound.identity, bound.is_terminating, kind)
        made = self._made.get(key)
        if made is None:
            definition, revision = self._define(bound)
            if storage is not None:
                definition = served_elsewhere(definition, kind)
            made = self._versions(definition, revision)
            self._made.put(key, made)
        return made

    def of_schema(
        self, schema: SchemaText, identity: str, storage: Object | None = None
    ) -> ResourceVersions:
        """What a schema defines under an identity, by version, whether it is bound or not."""
        bound = BoundResource(schema.uid, identity, "", "", "", is_terminating=False)
        if self._store.get(object_key(CRDS, BOUND_CRDS, "", schema.uid)) is not None:
            return self.resources(bound, storage)

        # It is bound nowhere, so no object of it is stored yet.
        def read() -> bytes:
            return as_definition(schema.read())

        text = read_crd(read())
        unbound = definition_from_text(text, self._schemas, read, origin=BOUND_CRDS)
        definition = _completed(unbound, bound)
        if storage is not None:
            definition = served_elsewhere(definition, slice_kind(storage))
        return self._versions(definition, 0)

    def _versions(self, definition: ResourceDefinition, revision: int) -> ResourceVersions:
        def make(version: str) -> Resource:
            return self._make(definition, version, revision)

        return ResourceVersions(definition.versions, make, definition)

    def _define(self, bound: BoundResource) -> tuple[ResourceDefinition, int]:
        entry = self._store.get(object_key(CRDS, BOUND_CRDS, "", bound.schema_uid))
        if entry is None:
            raise ServiceUnavailable("the schema of this resource is not here yet, try again later")
        definition = definition_from_text(
            read_crd(entry.value),
            self._schemas,
            stored_source(self._store, entry.key),
            origin=BOUND_CRDS,
        )
        return _completed(definition, bound), entry.revision


def _completed(definition: ResourceDefinition, bound: BoundResource) -> ResourceDefinition:
    verbs = definition.verbs
    if bound.is_terminating:
        verbs = tuple(verb for verb in verbs if verb != "create")
    return replace(
        as_kubernetes(definition),
        identity=bound.identity,
        verbs=verbs,
        is_terminating=bound.is_terminating,
        fingerprint=f"{bound.schema_uid}:{bound.is_terminating}",
        stored_versions=definition.stored_versions or (definition.storage_version,),
    )
