"""`/services/usage/clusters/<workspace>/…`: what a workspace holds. Not in kcp.

Objects and bytes are counted in the store when they are requested: nothing is kept up to date for
workspaces that are not asked about.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.loader import shared_type
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.registry.catalog.make import make_custom
from pykcp.registry.cluster_content import HeldContent, measure
from pykcp.registry.keys import range_prefix, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.listing import send_objects
from pykcp.types import Object
from pykcp.virtual.framework import Parts, VirtualView, Visit
from pykcp.virtual.tree import split_path

GROUP, VERSION, PLURAL = "usage.pykcp.dev", "v1alpha1", "resourceusages"


class UsageWorkspace:
    name = "usage"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts) -> None:
        self._lookup = parts.lookup
        self._view = UsageView(parts)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", place[1])


class UsageView(VirtualView):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._resource: Resource | None = None

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return (_definition(),)

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        if (group, version, plural) != (GROUP, VERSION, PLURAL):
            return None
        if self._resource is None:
            services = self._parts.directory.builtin(*API_BINDINGS).services
            self._resource = make_custom(_definition(), VERSION, 0, services)
        return self._resource

    async def authorize(self, call: Call) -> Decision:
        question = Attributes(call.user, "list", group=GROUP, resource=PLURAL, version=VERSION)
        return await self._parts.authorizer.authorize(call.cluster, question)

    def handler(self, call: Call) -> Handler:
        return self._list

    async def _list(self, call: Call) -> None:
        store, directory = call.resource.services.store, self._parts.directory
        await directory.load(call.cluster)
        matches, found = call.select().matcher(), []
        stored = {(*d.storage, d.identity): d for d in directory.definitions(call.cluster)}
        for definition in sorted(stored.values(), key=lambda d: (d.plural, d.group)):
            if definition.ephemeral:
                continue
            prefix = resource_prefix(*definition.storage, definition.identity)
            held = await measure(store, range_prefix(prefix, call.cluster))
            if not held.objects:
                continue
            usage = _usage(definition, held)
            if matches is None or matches(call.resource.terms_of(usage, call.cluster)):
                found.append(usage)
        send_objects(call, found, {"resourceVersion": str(store.revision)})


def _usage(definition: ResourceDefinition, held: HeldContent) -> Object:
    plural, group = definition.plural, definition.group
    return {
        "kind": "ResourceUsage",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {"name": f"{plural}.{group}" if group else plural},
        "spec": {"group": group, "resource": plural},
        "status": {"objects": held.objects, "bytes": held.size},
    }


@cache
def _definition() -> ResourceDefinition:
    text, number = {"type": "string"}, {"type": "integer"}
    spec = {"group": text, "resource": text}
    status = {
        "objects": {**number, "description": "Number of objects."},
        "bytes": {**number, "description": "Their size as JSON in the store."},
    }
    version: Object = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": "Objects", "type": "integer", "jsonPath": ".status.objects"},
            {"name": "Bytes", "type": "integer", "jsonPath": ".status.bytes"},
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "What a workspace holds of a resource.",
                "properties": {
                    "spec": {"type": "object", "properties": spec},
                    "status": {"type": "object", "properties": status},
                },
            }
        },
    }
    names = {"plural": PLURAL, "singular": "resourceusage", "kind": "ResourceUsage"}
    crd: Object = {
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }
    found = definition_from_crd(crd, SchemaStore(shared_type))
    return replace(found, verbs=("list",), fingerprint=f"{PLURAL}.{GROUP}")
