"""kcp-api-export-extra-annotation-sync: annotations that an export gives to its bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.objects import ApiObjects, ExportName, export_reference
from pykcp.controllers.apis.parts import with_reference
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS
from pykcp.machinery.status import NotFound
from pykcp.types import Object

NAME = "kcp-api-export-extra-annotation-sync"
PREFIX = "extra.apis.kcp.io/"
_MARK = PREFIX.encode()
_COMPLETE = b'"phase":"Bound"'
_AT_A_TIME = 16
_REMEMBER = 4096


def synced(export: Mapping[str, str], binding: Mapping[str, str]) -> dict[str, str]:
    """A binding's annotations with those of its export in place of those it had of it."""
    own = {key: value for key, value in binding.items() if not key.startswith(PREFIX)}
    return own | {key: value for key, value in export.items() if key.startswith(PREFIX)}


class ExtraAnnotations:
    def __init__(
        self, objects: ApiObjects, client: Client, metrics: ControllerMetrics | None = None
    ) -> None:
        self._objects, self._client = objects, client
        self._giving: BoundedCache[ExportName, bool] = BoundedCache("giving-exports", _REMEMBER)
        """Exports of other shards that had annotations for their bindings when last seen."""
        self.controller: Controller[ObjectKey | ExportName] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(API_EXPORTS, self._on_export)
        feed.on(API_BINDINGS, self._on_binding)
        replica = self._objects.lookup.replica
        if replica is not None:
            replica.follow(API_EXPORTS, self._on_published_export)

    def _on_export(self, change: Change) -> None:
        export = ExportName(change.cluster, change.name)
        # The export before this change may be large: it is read if the rest holds only.
        if self._objects.is_bound(export) and (_MARK in change.value or self._gave(change)):
            self.controller.add(export)

    def _on_published_export(self, cluster: str, name: str) -> None:
        """An export of another shard: only if it has annotations for its bindings, or had some."""
        export = ExportName(cluster, name)
        found = self._objects.export(cluster, "", name)
        if any(key.startswith(PREFIX) for key in meta.annotations(found or {})):
            self._giving.put(export, True)
        elif not self._giving.pop(export):
            return
        if self._objects.is_bound(export):
            self.controller.add(export)

    def _gave(self, change: Change) -> bool:
        """Whether an export had annotations for its bindings before this change."""
        before = change.previous()
        return before is not None and _MARK in before

    def _on_binding(self, change: Change) -> None:
        if change.deleted:
            return
        if _MARK in change.value or (change.created and _COMPLETE not in change.value):
            self.controller.add(change.key)

    async def reconcile(self, key: ObjectKey | ExportName) -> None:
        if isinstance(key, ObjectKey):
            await self._sync(key)
            return
        slices = Slices(key.cluster)
        for page in self._objects.bindings_of(key):
            for start in range(0, len(page), _AT_A_TIME):
                some = page[start : start + _AT_A_TIME]
                await asyncio.gather(*(self._sync(ref.key) for ref in some))
                if slices.is_over():
                    await slices.next()

    async def _sync(self, key: ObjectKey) -> None:
        value = self._objects.binding_value(key)
        binding = with_reference(value) if value is not None else {}  # it may be large
        reference = export_reference(binding)
        if reference is None:
            return
        export = await self._objects.read_export(key.cluster, *reference)
        given = meta.annotations(export) if export is not None else {}
        if synced(given, meta.annotations(binding)) == meta.annotations(binding):
            return

        def change(live: Object) -> None:
            live["metadata"]["annotations"] = synced(given, meta.annotations(live))

        try:
            await self._client.change(key.cluster, API_BINDINGS, key.name, change)
        except NotFound:
            return
