"""`/services/apiresourceschema/<consumer>/clusters/…`: the schemas that a consumer binds.

They are in the workspaces of its providers, which it need not be able to enter.
"""

from __future__ import annotations

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, API_RESOURCE_SCHEMAS
from pykcp.machinery.status import NotFound
from pykcp.registry.watch.selection import NOTHING
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.listing import send_objects
from pykcp.server.media.answers import send_object
from pykcp.types import Object
from pykcp.virtual.framework import (
    DENIED,
    FixedView,
    Parts,
    Visit,
    restricted,
    split_clusters,
    split_head,
)

_KEEP = 256
_READ = ("get", "list", "watch")


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
        self._consumer = consumer
        self._parts = parts

    def exists(self) -> bool:
        return bool(self._bound())

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

    def _bound(self) -> dict[str, str]:
        """The clusters of the schemas that the consumer's bindings are for."""
        lookup = self._parts.lookup
        found: dict[str, str] = {}
        for binding in lookup.all(API_BINDINGS, self._consumer):
            status = binding.get("status") or {}
            cluster = status.get("apiExportClusterName")
            export = ((binding.get("spec") or {}).get("reference") or {}).get("export") or {}
            if status.get("phase") != "Bound" or not cluster:
                continue
            provider = lookup.get(API_EXPORTS, cluster, export.get("name") or "") or {}
            for resource in (provider.get("spec") or {}).get("resources") or ():
                found[resource["schema"]] = cluster
        return found

    def _get(self, call: Call) -> None:
        name = call.info.name
        cluster = self._bound().get(name)
        schema = self._schema(cluster, name) if cluster is not None else None
        if schema is None:
            raise NotFound.resource(API_RESOURCE_SCHEMAS.group, API_RESOURCE_SCHEMAS.resource, name)
        send_object(call, transformed(call, schema) if call.accepted.transform else schema)

    async def _list(self, call: Call) -> None:
        # By the base: the view's own resource selects nothing, whatever the request says.
        texts = call.info.param("labelSelector"), call.info.param("fieldSelector")
        selection = await in_slices(self._base.select_in_steps(*texts), self._consumer)
        matches = selection.matcher()
        found = (self._schema(cluster, name) for name, cluster in sorted(self._bound().items()))
        objects = [
            schema
            for schema in found
            if schema is not None
            and (matches is None or matches(self._base.terms_of(schema, self._consumer)))
        ]
        send_objects(call, objects, {"resourceVersion": str(self._base.services.store.revision)})

    def _schema(self, cluster: str, name: str) -> Object | None:
        return self._parts.lookup.get(API_RESOURCE_SCHEMAS, cluster, name)
