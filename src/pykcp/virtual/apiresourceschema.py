"""`/services/apiresourceschema/<consumer>/clusters/…`: the schemas that a consumer binds.

They are in the workspaces of its providers, which it need not be able to enter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from pykcp.aio.slices import Slices, in_slices
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, API_RESOURCE_SCHEMAS
from pykcp.machinery.status import NotFound
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.read import PAGE_BYTES, Listing
from pykcp.registry.watch.selection import NOTHING
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.listing import send_list
from pykcp.virtual.framework import (
    DENIED,
    FixedView,
    Parts,
    Visit,
    restricted,
    split_clusters,
    split_head,
    stored_form,
)

_KEEP = 256
_READ = ("get", "list", "watch")
_BINDINGS, _EXPORTS = kind_prefix(API_BINDINGS), kind_prefix(API_EXPORTS)
_SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)


class ApiResourceSchemaWorkspace:
    name = "apiresourceschema"
    checks: tuple[str, ...] = ("apiresourceschema",)

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._views: BoundedCache[str, SchemasView] = BoundedCache("schema-views", _KEEP)

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 1)
        if head is None or head[0] == clusters.WILDCARD or not clusters.is_name(head[0]):
            return None
        consumer, rest = head
        if rest.startswith("/clusters/"):
            place = split_clusters(rest)
            if place is None or place[0] not in (clusters.WILDCARD, consumer):
                return None
            rest = place[1]
        return Visit(self._view(consumer), consumer, rest)

    def _view(self, consumer: str) -> SchemasView:
        view = self._views.get(consumer)
        if view is None:
            view = self._views.put(consumer, SchemasView(consumer, self._parts))
        return view


class SchemasView(FixedView):
    def __init__(self, consumer: str, parts: Parts) -> None:
        base = parts.directory.builtin(*API_RESOURCE_SCHEMAS)
        shown = restricted(base.definition, _READ, {})
        # What is read is not in the consumer's cluster; a watch opens, and stays empty.
        super().__init__({API_RESOURCE_SCHEMAS: base.viewed(definition=shown, scope=NOTHING)})
        self._base = base
        self._store: StoreReader = base.services.store
        self._consumer = consumer
        self._parts = parts
        self._schemas: Mapping[str, str] = {}
        """Those that the consumer's bindings are for, with their clusters, as of the last request."""

    def exists(self) -> bool:
        return bool(self._schemas)

    async def enter(self, call: Call) -> None:
        """Find the schemas. All else follows from them, and bindings may be many and large."""
        found: dict[str, str] = {}
        slices = Slices(self._consumer)
        for key in self._store.keys(f"{_BINDINGS}{self._consumer}/"):
            entry = self._store.get(key)
            bound = _bound_export(entry.value) if entry is not None else None
            if bound is not None:
                found |= dict.fromkeys(self._schemas_of(*bound), bound[0])
            if slices.is_over():
                await slices.next()
        self._schemas = found

    def _schemas_of(self, cluster: str, export: str) -> list[str]:
        """The names of the schemas of an export."""
        entry = self._store.get(object_key(_EXPORTS, cluster, "", export))
        if entry is not None:
            return [r.schema for r in _decode_export(entry.value).spec.resources or ()]
        far = self._parts.lookup.get(API_EXPORTS, cluster, export) or {}
        return [r["schema"] for r in (far.get("spec") or {}).get("resources") or ()]

    async def authorize(self, call: Call) -> Decision:
        if call.info.verb not in _READ:
            return DENIED
        question = Attributes(
            call.user,
            "get",
            group=API_BINDINGS.group,
            resource=API_BINDINGS.resource,
            version=API_BINDINGS.version,
        )
        decision = await self._parts.authorizer.authorize(self._consumer, question)
        return decision if decision.allowed else DENIED

    def handler(self, call: Call) -> Handler | None:
        return {"get": self._get, "list": self._list}.get(call.info.verb)

    async def _get(self, call: Call) -> None:
        name = call.info.name
        cluster = self._schemas.get(name)
        schema = self._schema(name, cluster) if cluster is not None else None
        if schema is None:
            raise NotFound.resource(API_RESOURCE_SCHEMAS.group, API_RESOURCE_SCHEMAS.resource, name)
        await send_written(call, schema.value, 200)

    async def _list(self, call: Call) -> None:
        # By the base: the view's own resource selects nothing, whatever the request says.
        texts = call.info.param("labelSelector"), call.info.param("fieldSelector")
        selection = await in_slices(self._base.select_in_steps(*texts), self._consumer)
        names = iter(sorted(self._schemas.items()))
        revision = self._store.revision
        await send_list(call, _SchemaPages(self._schema, names, selection.matcher(), revision))

    def _schema(self, name: str, cluster: str) -> Stored | None:
        entry = self._store.get(object_key(_SCHEMAS, cluster, "", name))
        if entry is not None:
            return Stored(entry.value, entry.terms)
        far = self._parts.lookup.get(API_RESOURCE_SCHEMAS, cluster, name)
        if far is None:
            return None
        return Stored(stored_form(far), self._base.terms_of(far, self._consumer))


class Stored(NamedTuple):
    """A schema as it is stored."""

    value: bytes
    terms: str


class _SchemaPages:
    """A list of schemas, read while it is sent."""

    def __init__(
        self,
        read: Callable[[str, str], Stored | None],
        names: Iterator[tuple[str, str]],
        matches: Callable[[str], bool] | None,
        revision: int,
    ) -> None:
        self._read, self._names, self._matches = read, names, matches
        self._revision = revision
        self.is_done = False

    async def next(self) -> Listing:
        values, size, slices = [], 0, Slices()
        while size < PAGE_BYTES and not self.is_done:
            named = next(self._names, None)
            found = self._read(*named) if named is not None else None
            self.is_done = named is None
            if found is not None and (self._matches is None or self._matches(found.terms)):
                values.append(found.value)
                size += len(found.value)
            if slices.is_over():
                await slices.next()
        return Listing(values, self._revision, "", None)


class _Named(msgspec.Struct):
    name: str = ""


class _Reference(msgspec.Struct):
    export: _Named | None = None


class _BindingSpec(msgspec.Struct):
    reference: _Reference | None = None


class _BindingStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    api_export_cluster_name: str = ""


class _Binding(msgspec.Struct):
    spec: _BindingSpec = msgspec.field(default_factory=_BindingSpec)
    status: _BindingStatus = msgspec.field(default_factory=_BindingStatus)


class _Resource(msgspec.Struct):
    schema: str


class _ExportSpec(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Export(msgspec.Struct):
    spec: _ExportSpec = msgspec.field(default_factory=_ExportSpec)


_decode_binding = msgspec.json.Decoder(_Binding).decode
_decode_export = msgspec.json.Decoder(_Export).decode


def _bound_export(value: bytes) -> tuple[str, str] | None:
    """Cluster and name of the export that a binding has bound."""
    binding = _decode_binding(value)
    cluster, reference = binding.status.api_export_cluster_name, binding.spec.reference
    if binding.status.phase != "Bound" or not cluster:
        return None
    export = reference.export if reference is not None else None
    return cluster, export.name if export is not None else ""
