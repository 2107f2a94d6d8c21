"""`/services/exports/<workspace>/<export>/clusters/…`: one URL for an export. Not in kcp.

It serves the same as `apiexport`, but workspaces are addressed by their paths, so the URL is
known in advance and does not change with logical clusters or shards. In addition to the
export's resources it serves `consumers`: who binds the export, and how many objects they have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache, partial

import msgspec

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.auth.authz.attributes import Decision
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import export_label_value
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry.catalog.make import make_custom
from pykcp.registry.cluster_content import measure
from pykcp.registry.indexes.apis import bindings_of
from pykcp.registry.keys import kind_prefix, range_prefix, split_key
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.read import PAGE_BYTES, Listing
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.listing import send_list
from pykcp.types import Object
from pykcp.virtual.apiexport.view import ExportView
from pykcp.virtual.apiexport.workspace import ApiExportWorkspace
from pykcp.virtual.framework import OwnKind, Parts, VirtualView, Visit, split_head, stored_form
from pykcp.wire.exchange import Stream

GROUP, VERSION, PLURAL = "usage.pykcp.dev", "v1alpha1", "consumers"
_BINDINGS = kind_prefix(API_BINDINGS)


class ExportsWorkspace:
    name = "exports"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, exports: ApiExportWorkspace) -> None:
        self._parts = parts
        self._exports = exports

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 2)
        if head is None or not head[2].startswith("/clusters/"):
            return None
        consumer, _, rest = head[2].removeprefix("/clusters/").partition("/")
        view = self._exports.view((self._cluster(head[0]), head[1]))
        return Visit(self._with_consumers(view), self._cluster(consumer), f"/{rest}")

    def _cluster(self, path: str) -> str:
        """The cluster at a path. Where there is none, strangers shall not learn it here."""
        if path == clusters.WILDCARD:
            return path
        valid = clusters.is_valid_path(path) or clusters.is_system(path)
        found = self._parts.lookup.cluster_of(path) if valid else None
        return found or "system:nowhere"

    def _with_consumers(self, view: ExportView) -> VirtualView:
        if view.companion is None:
            view.companion = ConsumersView(view, self._parts)
        return view.companion


class ConsumersView(VirtualView):
    """The view of an export, and its consumers."""

    def __init__(self, export: ExportView, parts: Parts) -> None:
        self._export = export
        self._parts = parts
        self._resource: Resource | None = None

    def exists(self) -> bool:
        return self._export.exists()

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        if (group, version, plural) != (GROUP, VERSION, PLURAL):
            return self._export.find(call_cluster, group, version, plural)
        if self._resource is None:
            services = self._parts.directory.builtin(*API_BINDINGS).services
            self._resource = make_custom(_definition(), VERSION, 0, services)
        return self._resource

    def is_loaded(self, cluster: str) -> bool:
        return self._export.is_loaded(cluster)

    async def load(self, cluster: str) -> None:
        await self._export.load(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return (*self._export.definitions(cluster), _definition())

    async def authorize(self, call: Call) -> Decision:
        if call.info.group == GROUP:
            return await self._export.may_use(call)
        return await self._export.authorize(call)

    async def enter(self, call: Call) -> None:
        await self._export.prepare()
        if call.info.group != GROUP:
            await self._export.enter(call)

    def opened(self, call: Call, stream: Stream) -> None:
        self._export.opened(call, stream)

    def handler(self, call: Call) -> Handler | None:
        return self._list if call.info.group == GROUP else None

    async def _list(self, call: Call) -> None:
        store = call.resource.services.store
        consumers = self._consumers(store, call.cluster)
        await send_list(call, _ConsumerPages(call, consumers, store.revision))

    async def _consumers(self, store: StoreReader, cluster: str) -> AsyncIterator[Object]:
        """The consumers of the export, in one cluster or in all."""
        slices = Slices(cluster)
        exported = []
        for named in self._export.exported():
            exported.append(named)
            if slices.is_over():
                await slices.next()
        for key in store.lookup(bindings_of(export_label_value(*self._export.key))):
            place = split_key(key).cluster
            if key.startswith(_BINDINGS) and cluster in (clusters.WILDCARD, place):
                entry = store.get(key)
                if entry is not None:
                    counts = [
                        await self._held(store, group, plural, prefix, place, slices)
                        for (group, plural), prefix in exported
                    ]
                    yield _consumer(_decode(entry.value), counts)
            if slices.is_over():
                await slices.next()

    async def _held(
        self,
        store: StoreReader,
        group: str,
        plural: str,
        prefix: str,
        cluster: str,
        slices: Slices,
    ) -> Object:
        found = await measure(store, range_prefix(prefix, cluster), slices)
        return {"group": group, "resource": plural, "count": found.objects, "bytes": found.size}


class _ConsumerPages:
    """A list of consumers, counted while it is sent."""

    def __init__(self, call: Call, consumers: AsyncIterator[Object], revision: int) -> None:
        self._matches = call.select().matcher()
        self._terms_of = partial(call.resource.terms_of, cluster=call.cluster)
        self._consumers, self._revision = consumers, revision
        self.is_done = False

    async def next(self) -> Listing:
        values, size = [], 0
        while size < PAGE_BYTES and not self.is_done:
            consumer = await anext(self._consumers, None)
            self.is_done = consumer is None
            if consumer is None:
                break
            if self._matches is None or self._matches(self._terms_of(consumer)):
                values.append(stored_form(consumer))
                size += len(values[-1])
        return Listing(values, self._revision, "", None)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    annotations: dict[str, str]
    creation_timestamp: str
    resource_version: str


class _Status(msgspec.Struct):
    phase: str = ""


class _Binding(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Binding).decode


def _consumer(binding: _Binding, counts: list[Object]) -> Object:
    metadata = binding.metadata
    cluster = metadata.annotations["kcp.io/cluster"]
    path = metadata.annotations.get(PATH_ANNOTATION) or cluster
    return {
        "metadata": {
            "name": cluster,
            "annotations": {"kcp.io/cluster": cluster, PATH_ANNOTATION: path},
            "creationTimestamp": metadata.creation_timestamp,
            "resourceVersion": metadata.resource_version,
        },
        "spec": {"path": path, "binding": metadata.name},
        "status": {
            "phase": binding.status.phase,
            "objects": sum(one["count"] for one in counts),
            "bytes": sum(one["bytes"] for one in counts),
            "resources": counts,
        },
    }


@cache
def _definition() -> ResourceDefinition:
    text, number = {"type": "string"}, {"type": "integer"}
    resource = {"group": text, "resource": text, "count": number, "bytes": number}
    status = {
        "phase": {**text, "description": "Phase of the binding."},
        "objects": {**number, "description": "Objects of the export's resources."},
        "bytes": {**number, "description": "Their size as JSON in the store."},
        "resources": {"type": "array", "items": {"type": "object", "properties": resource}},
    }
    spec = {
        "path": {**text, "description": "Path of the consumer's workspace."},
        "binding": {**text, "description": "Name of its APIBinding."},
    }
    columns = (
        ("Path", "string", ".spec.path"),
        ("Phase", "string", ".status.phase"),
        ("Objects", "integer", ".status.objects"),
        ("Bytes", "integer", ".status.bytes"),
    )
    made = OwnKind(
        GROUP,
        VERSION,
        PLURAL,
        "Consumer",
        "A workspace that binds an export, and what it holds.",
        {"type": "object", "properties": spec},
        {"type": "object", "properties": status},
        columns,
        verbs=("list",),
    )
    return made.definition()
