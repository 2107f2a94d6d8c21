"""Negotiated types as an APIExport, so that other workspaces can bind them.

An APIExport with the annotation `apiresource.kcp.dev/export: negotiated` gets the published types
of its workspace. Schemas are immutable: a type that changed gets a new one, named by its content.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import orjson

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.conditions import is_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_EXPORTS, API_RESOURCE_SCHEMAS
from pykcp.machinery.status import AlreadyExists
from pykcp.multicluster.importing import publishing
from pykcp.multicluster.importing.objects import CORE, PUBLISHED
from pykcp.multicluster.names import NEGOTIATED
from pykcp.types import Object

NAME = "kcp-api-exporting"
EXPORT_ANNOTATION = "apiresource.kcp.dev/export"
_NEGOTIATED = "negotiated"


def is_filled_here(export: Object) -> bool:
    """Whether an APIExport takes the negotiated types of its workspace."""
    return meta.annotations(export).get(EXPORT_ANNOTATION) == _NEGOTIATED


def resource_schemas(negotiated: Iterable[Object]) -> list[Object]:
    """The APIResourceSchemas of types, one for all versions of each."""
    by_type: dict[str, list[Object]] = {}
    for one in negotiated:
        spec = one["spec"]
        group = spec["groupVersion"].get("group") or CORE
        by_type.setdefault(f"{spec['plural']}.{group}", []).append(one)
    return [_schema(name, versions) for name, versions in sorted(by_type.items())]


def _schema(name: str, versions: list[Object]) -> Object:
    crd = publishing.definition(versions)
    spec = crd["spec"]
    made = {
        "group": spec["group"],
        "names": spec["names"],
        "scope": spec["scope"],
        "versions": [
            {
                **version,
                "schema": version["schema"]["openAPIV3Schema"],
                "subresources": version.get("subresources") or {},
            }
            for version in spec["versions"]
        ],
    }
    if len(versions) > 1:
        made["conversion"] = {"strategy": "None"}
    content = orjson.dumps(made, option=orjson.OPT_SORT_KEYS)
    metadata: Object = {"name": f"rev-{sha256(content).hexdigest()[:12]}.{name}"}
    if meta.annotations(crd):
        metadata["annotations"] = dict(meta.annotations(crd))
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": metadata,
        "spec": made,
    }


def exported_resources(schemas: Iterable[Object]) -> list[Object]:
    """What an export lists of them."""
    return [
        {
            "name": schema["spec"]["names"]["plural"],
            "group": schema["spec"]["group"],
            "schema": meta.name(schema),
            "storage": {"crd": {}},
        }
        for schema in schemas
    ]


class TypeExports:
    def __init__(
        self, lister: Lister, client: Client, metrics: ControllerMetrics | None = None
    ) -> None:
        self._lister, self._client = lister, client
        self._filled: set[ObjectKey] = set()
        """Exports that take negotiated types."""
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(API_EXPORTS, self._on_export)
        feed.on(NEGOTIATED, self._on_negotiated)

    def add_all(self) -> None:
        for key in self._lister.keys(API_EXPORTS):
            self.controller.add(key)

    def _on_export(self, change: Change) -> None:
        if EXPORT_ANNOTATION.encode() in change.value or change.key in self._filled:
            self.controller.add(change.key)

    def _on_negotiated(self, change: Change) -> None:
        for key in self._filled:
            if key.cluster == change.cluster:
                self.controller.add(key)

    async def reconcile(self, key: ObjectKey) -> None:
        export = await self._client.get(key.cluster, API_EXPORTS, key.name)
        if export is None or meta.is_deleting(export) or not is_filled_here(export):
            self._filled.discard(key)
            return
        self._filled.add(key)
        schemas = resource_schemas(await self._published(key.cluster))
        for schema in schemas:
            await self._ensure(key.cluster, schema)
        wanted = exported_resources(schemas)

        def fill(live: Object) -> None:
            spec = live.setdefault("spec", {})
            own = {(one["group"], one["name"]) for one in wanted}
            # Types that no cluster has any longer stay: objects of consumers may exist.
            kept = [
                one
                for one in spec.get("resources") or ()
                if (one.get("group") or "", one["name"]) not in own
            ]
            spec["resources"] = sorted(
                [*kept, *wanted], key=lambda one: (one.get("group") or "", one["name"])
            )

        if wanted:
            await self._client.change(key.cluster, API_EXPORTS, key.name, fill)

    async def _published(self, cluster: str) -> list[Object]:
        found = []
        for key in self._lister.keys(NEGOTIATED, cluster):
            one = await self._client.get(cluster, NEGOTIATED, key.name)
            if one is not None and is_true(one, PUBLISHED):
                found.append(one)
        return found

    async def _ensure(self, cluster: str, schema: Object) -> None:
        if await self._client.get(cluster, API_RESOURCE_SCHEMAS, meta.name(schema)) is not None:
            return
        try:
            await self._client.create(cluster, API_RESOURCE_SCHEMAS, schema)
        except AlreadyExists:
            return
