"""One kind at one version, ready to be read and written in any logical cluster.

A `Resource` joins a definition (what the kind is) with the services of this
process (store, hub, admission). It holds no objects and exists once per kind and
version, not per cluster. The verbs are functions in modules of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.rules import CelCheck, SchemaChecks
from pykcp.machinery.meta import SYNCER_FINALIZER
from pykcp.machinery.schema.crd_text import is_simple
from pykcp.machinery.schema.growth import grow
from pykcp.machinery.terms import label_terms
from pykcp.registry import codec
from pykcp.registry.catalog.kinds import Kind
from pykcp.registry.clock import Sources
from pykcp.registry.codec import decode, revision_of, type_prefix
from pykcp.registry.conversion.review import ConversionFailed, Post
from pykcp.registry.conversion.webhook import StorageConversion
from pykcp.registry.indexes.entries import OF_KIND, index_entries
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.traits import (
    IGNORES_DEPENDENTS,
    KUBERNETES_RETURNS_DELETED,
    RETURNS_DELETED,
)
from pykcp.registry.verbs.admitting import Admission
from pykcp.registry.watch.hub import WatchHub
from pykcp.registry.watch.selection import Selection, select, select_in_steps
from pykcp.steps import Steps
from pykcp.storage.interface import Entry, Store, Value
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.registry.moving.moves import ClusterMoves
    from pykcp.registry.verbs.large_work import LargeWork

LARGE = 32 * 1024
"""Octets above which a write is computed by a worker process: below it takes a few milliseconds,
whatever it says."""


@dataclass(frozen=True, slots=True)
class Services:
    """What all resources of a process share."""

    store: Store
    hub: WatchHub
    admission: Admission
    sources: Sources
    check_cel: CelCheck | None = None
    """Compiles expressions in policies; None if not available."""
    schema_checks: SchemaChecks | None = None
    """Checks a CRD's defaults and CEL rules; None if not available."""
    call_converter: Post | None = None
    """Calls conversion webhooks; None if not available."""
    large: LargeWork | None = None
    """Does the work of large writes; None: all of it is done on the event loop."""
    moves: ClusterMoves | None = None
    """Which logical clusters have left this shard; None if none can."""


def finalizer_field(finalizer: str) -> str:
    """The field by which views select objects with a syncer's finalizer."""
    return f"metadata.finalizers:{finalizer}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """Between the version served and the form stored; absent when only the label differs."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]
    field_names: Mapping[str, str] = field(default_factory=dict)
    """Selectable fields whose name in storage is another."""


_SPACE = 0x20
"""Stands before the last brace of values that say their version."""
TERMINATING_FIELD = "metadata.deletionTimestamp"
"""Whether the object is being deleted; only views select by this field, no request can."""
_WITHOUT_NAMESPACE = frozenset(("metadata.name",))
_IN_NAMESPACES = _WITHOUT_NAMESPACE | {"metadata.namespace"}


def _is_custom(definition: ResourceDefinition) -> bool:
    """Whether it is none of Kubernetes' kinds, whether they are built in or defined."""
    return not (definition.native or definition.is_kubernetes)


class Resource:
    ignores_finalizers = False
    """A delete removes an object immediately, regardless of its finalizers."""

    __slots__ = (
        "_has_fields",
        "_index",
        "_plain",
        "all_identities",
        "api_version",
        "collects_garbage",
        "conversion",
        "definition",
        "deprecation",
        "error_group",
        "form",
        "group",
        "has_schemas",
        "is_costly",
        "kind",
        "known_fields",
        "large_above",
        "list_type",
        "namespaced",
        "plural",
        "prefix",
        "refresh",
        "returns_deleted",
        "rules",
        "scope",
        "services",
        "since",
        "source",
        "storage",
        "type_prefix",
        "version",
        "version_suffix",
        "webhook",
    )

    def __init__(
        self,
        definition: ResourceDefinition,
        version: str,
        rules: Kind,
        services: Services,
        conversion: Conversion | None = None,
        *,
        refresh: Callable[[Object], Object] | None = None,
        since: int = 0,
        webhook: StorageConversion | None = None,
    ) -> None:
        """`refresh` brings objects older than revision `since` under the schema of today."""
        self.definition = definition
        self.version = version
        self.group, self.plural = definition.group, definition.plural
        self.kind, self.namespaced = definition.kind, definition.namespaced
        self.api_version = f"{self.group}/{version}" if self.group else version
        storage_group, storage_resource = self.storage = definition.storage
        self.error_group = storage_group
        """The group that refusals name: events of either group are the core group's there."""
        self.prefix = resource_prefix(storage_group, storage_resource, definition.identity)
        self.type_prefix = type_prefix(self.api_version, self.kind)
        self.list_type = type_prefix(self.api_version, definition.list_kind)
        own = definition.version(version).selectable_fields
        common = _IN_NAMESPACES if definition.namespaced else _WITHOUT_NAMESPACE
        self.known_fields = own | common if own or _is_custom(definition) else None
        self._has_fields = any(v.selectable_fields for v in definition.all_versions)
        self.deprecation = definition.version(version).deprecation_warning
        """The deprecation warning of this version; "" if it is not deprecated."""
        self._index = OF_KIND.get(definition.strategy)
        self.rules = rules
        name = (self.group, self.plural)
        self.returns_deleted = name in RETURNS_DELETED or (
            definition.is_kubernetes and name in KUBERNETES_RETURNS_DELETED
        )
        """DELETE answers with the object rather than with a Status."""
        self.collects_garbage = name not in IGNORES_DEPENDENTS
        """Propagation policies mean something for this kind."""
        self.services = services
        self.all_identities = ""
        """Set if objects of all identities are meant: the name under which they are watched."""
        self.form: tuple[str, ...] = (self.api_version, self.plural)
        """Equal for resources that show an event alike, so that it is encoded only once."""
        self.scope: Selection | None = None
        """Of a view: the objects that it shows. What is outside does not exist there."""
        self.conversion = conversion
        self.refresh, self.since = refresh, since
        self.webhook: StorageConversion | None = webhook
        """Converts what is stored; its results are what all other methods here are given."""
        self.version_suffix = self._version_suffix()
        self.source: Callable[[], bytes] | None = None
        """JSON of the definition that a worker process can make the resource of, empty for built-in
        ones; None: only this process can."""
        self._plain: Resource | None = None
        self.large_above = LARGE
        self.has_schemas = False
        """Whether objects of the kind contain schemas: their rules are what takes long."""
        self.is_costly: Callable[[int], bool] | None = None
        """Whether the rules of the kind may take long on a small object of this size."""

    @property
    def has_workers(self) -> bool:
        """Whether worker processes know the kind, so that they can do what takes long."""
        return self.source is not None and self.services.large is not None

    @property
    def is_shown_as_stored(self) -> bool:
        """Whether no object has to be decoded to be shown as a whole."""
        return self.conversion is None and self.refresh is None

    def is_large(self, size: int, text: bytes = b"") -> bool:
        """Whether a write of an object of so many octets is done by a worker process.

        `text`: the object in JSON, if it is known; schemas with few rules take less time.
        """
        if not self.has_workers:
            return False
        if self.has_schemas and size > self.large_above and is_simple(text):
            return False
        return size > self.large_above or (self.is_costly is not None and self.is_costly(size))

    def select(self, label_text: str, field_text: str) -> Selection:
        """Label and field selectors of a request, in terms of what is stored."""
        names = self.conversion.field_names if self.conversion else None
        chosen = select(label_text, field_text, self.known_fields, names)
        return chosen if self.scope is None else self.scope.joined(chosen)

    def select_in_steps(self, label_text: str, field_text: str) -> Steps[Selection]:
        names = self.conversion.field_names if self.conversion else None
        chosen = yield from select_in_steps(label_text, field_text, self.known_fields, names)
        return chosen if self.scope is None else self.scope.joined(chosen)

    def viewed(
        self,
        *,
        definition: ResourceDefinition | None = None,
        scope: Selection | None = None,
        admission: Admission | None = None,
        shown_in: str = "",
        conversion: Conversion | None = None,
    ) -> Resource:
        """The same resource in a view: with fewer verbs, fewer objects and more rules.

        `conversion` transforms its objects for the view; `shown_in` distinguishes such views.
        """
        view = copy.copy(self)
        view._plain = None
        view.definition = definition or self.definition
        view.scope = scope
        if conversion is not None:
            view.source = None
            view.conversion = conversion
            view.form = (*self.form, shown_in)
        if admission is not None:
            view.services = replace(self.services, admission=admission)
        return view

    @property
    def is_plain(self) -> bool:
        """Whether objects are shown without the annotation of their logical cluster."""
        return self._plain is self

    def plain(self) -> Resource:
        """The same resource as kube-apiserver shows it; made when it is first needed."""
        if self._plain is None:
            view = copy.copy(self)
            view._plain = view
            view.form = (*self.form, "plain")
            self._plain = view
        return self._plain

    def entry(self, cluster: str, namespace: str, name: str) -> Entry | None:
        """The stored object, if there is one to be seen."""
        entry = self.services.store.get(self.key(cluster, namespace, name))
        if entry is None or self.scope is None:
            return entry
        matches = self.scope.matcher()
        return entry if matches is None or matches(entry.terms) else None

    def key(self, cluster: str, namespace: str, name: str) -> str:
        return object_key(self.prefix, cluster, namespace if self.namespaced else "", name)

    def terms_of(self, stored: Object, cluster: str) -> str:
        """The text by which the object is selected: labels and selectable fields."""
        metadata = stored["metadata"]
        chosen = dict(self.rules.selectable(stored)) if self._has_fields else {}
        chosen["metadata.name"] = metadata["name"]
        if self.namespaced:
            chosen["metadata.namespace"] = metadata.get("namespace", "")
        if "deletionTimestamp" in metadata:
            chosen[TERMINATING_FIELD] = "true"
        if "finalizers" in metadata:
            for finalizer in metadata["finalizers"] or ():
                if finalizer.startswith(SYNCER_FINALIZER):
                    chosen[finalizer_field(finalizer)] = "true"
        return label_terms(metadata.get("labels"), chosen)

    def index_entries(self, cluster: str, stored: Object) -> tuple[str, ...]:
        """The entries by which the object is found without its key."""
        entries = index_entries(cluster, stored)
        return entries if self._index is None else (*entries, *self._index(cluster, stored))

    def _version_suffix(self) -> bytes:
        """What objects of a CRD say of their version: its storage version may change."""
        definition = self.definition
        if not definition.stored_versions:
            return b""
        return codec.version_suffix(definition.api_version(definition.storage_version))

    def is_outdated(self, value: bytes) -> bool:
        """Whether a custom object is stored in another version than it would be now."""
        definition = self.definition
        if not definition.stored_versions:
            return False
        now = definition.api_version(definition.storage_version)
        first = definition.api_version(definition.stored_versions[0])
        return (codec.stored_version(value) or first) != now

    async def stored_form(self, obj: Object, *, can_restart: bool = False) -> Object:
        """An object of this version as it is stored; `can_restart`: Outgrown may be raised."""
        if self.webhook is not None:
            return await self.webhook.to_storage(obj, can_restart=can_restart)
        return self.conversion.to_storage(obj) if self.conversion is not None else obj

    def unstored_form(self, obj: Object) -> Object:
        """An object of this version as it would come out of the store: for dry runs."""
        return self.conversion.to_storage(obj) if self.conversion is not None else obj

    async def own_form(self, value: bytes) -> bytes:
        """A value out of the store, as the rest of this class takes it."""
        if self.webhook is None:
            return value
        return (await self.webhook.from_storage((value,)))[0]

    def encode(self, stored: Object, cluster: str) -> Value:
        return codec.encode(stored, cluster, self.version_suffix)

    def annotated_cluster(self, cluster: str) -> str:
        """What the cluster annotation of an object says."""
        return cluster

    def unversioned(self, obj: Object, cluster: str) -> bytes:
        """What a dry run answers with."""
        return codec.unversioned(obj, cluster)

    def kept_fields(self, metadata: Object) -> Object:
        """What a new object may bring along of that which the server sets: nothing."""
        return {}

    def served(self, value: bytes) -> bytes:
        """Stored bytes as this version shows them."""
        if self._plain is self:
            value = codec.without_cluster(value)
        if self.conversion is not None or self.is_older(value):
            return self._converted(value)
        if value[-2] == _SPACE:
            suffix = self.version_suffix
            if suffix and value.endswith(suffix):
                return b"".join((self.type_prefix, value[1 : -len(suffix)], b"}"))
            value = self._without_version(value)
        return self.type_prefix + value[1:]

    def _without_version(self, value: bytes) -> bytes:
        self._check_version(value)
        return codec.without_version(value)

    def _check_version(self, value: bytes) -> None:
        """Versions in which something is stored must not be taken out of a definition."""
        stored = codec.stored_version(value)
        if not self.definition.stored_versions:
            return  # all versions are shown alike
        if stored.rpartition("/")[2] not in {v.name for v in self.definition.all_versions}:
            raise ConversionFailed(f"request to convert CR from an invalid group/version: {stored}")

    def item(self, value: bytes) -> bytes:
        """Stored bytes as an item of a list: native kinds leave their type out there."""
        if not self.definition.native:
            return self.served(value)
        if self.conversion is not None:
            return b"{" + self.served(value)[len(self.type_prefix) :]
        return codec.without_cluster(value) if self.is_plain else value

    def is_older(self, value: bytes) -> bool:
        """Whether the object was written under an earlier schema."""
        return self.refresh is not None and revision_of(value) < self.since

    def _converted(self, value: bytes) -> bytes:
        grow(len(value))
        return self.type_prefix + orjson.dumps(self._object(value))[1:]

    def is_changed_by_reading(self, value: bytes) -> bool:
        """Whether the schema of today drops or adds something, so that a write is due."""
        return self.is_older(value) and self._object(value) != self._unrefreshed(value)

    def _object(self, value: bytes) -> Object:
        obj = self._unrefreshed(value)
        if self.refresh is not None and self.is_older(value):
            obj = self.refresh(obj)
        return obj

    def _unrefreshed(self, value: bytes) -> Object:
        obj = decode(value)
        if value[-2] == _SPACE:
            self._check_version(value)
            del obj["apiVersion"]
        if self.conversion is not None:
            obj = self.conversion.from_storage(obj)
        return obj

    def object_in_steps(self, value: bytes) -> Steps[Object]:
        """`object_of` for a value that may be large."""
        if self.conversion is not None or self.refresh is not None or self.is_plain:
            return self.object_of(value)
        obj = yield from codec.decode_in_steps(value)
        if value[-2] == _SPACE:
            self._check_version(value)
            del obj["apiVersion"]
        return {"kind": self.kind, "apiVersion": self.api_version, **obj}

    def object_of(self, value: bytes) -> Object:
        """Stored bytes as an object of this version, type included."""
        obj = self._object(value)
        if self.is_plain:
            codec.strip_cluster(obj)
        return {"kind": self.kind, "apiVersion": self.api_version, **obj}
