"""All exports' views: made when first visited, kept within bounds, forgotten by events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from pykcp.auth.authz.chain import Authorizer
from pykcp.cache.scopes import split
from pykcp.machinery.kcp.clusters import SYSTEM_BOUND_CRDS
from pykcp.machinery.resources import (
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
)
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.stored import Event, StoreReader
from pykcp.virtual.apiexport.access import ExportViewAccess
from pykcp.virtual.apiexport.grants import BINDINGS, Grants
from pykcp.virtual.apiexport.surface import Surface, ViewKinds
from pykcp.virtual.apiexport.view import ExportView, Watches
from pykcp.virtual.framework import Visit, split_clusters, split_head

_EXPORTS = kind_prefix(API_EXPORTS)
_SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)
_BOUND = f"{kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)}{SYSTEM_BOUND_CRDS}/"
_KEEP = 512

ExportKey = tuple[str, str]
"""Cluster and name."""


class ApiExportWorkspace:
    name = "apiexport"
    checks: tuple[str, ...] = ("apiexport",)

    def __init__(self, store: StoreReader, kinds: ViewKinds, authorizer: Authorizer) -> None:
        self._kinds = kinds
        self._grants = Grants(kinds.lookup)
        self._access = ExportViewAccess(kinds.lookup, authorizer, self._grants)
        self._views: OrderedDict[ExportKey, ExportView] = OrderedDict()
        self._watches: dict[ExportKey, Watches] = {}
        """Of exports whose watches must be looked at when they change."""
        self._loop = asyncio.get_running_loop()
        store.listen(self._follow, (BINDINGS, _EXPORTS, _SCHEMAS, _BOUND))

    def follow_cache(self, store: StoreReader, own_shard: str) -> None:
        """Other shards' exports and schemas come through the cache."""

        def follow(events: Sequence[Event]) -> None:
            for event in events:
                if event.key.startswith((_EXPORTS, _SCHEMAS)):
                    shard, cluster = split(split_key(event.key).cluster)
                    if shard != own_shard:
                        self._changed(event.key, cluster)

        store.listen(follow, (_EXPORTS, _SCHEMAS))

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 2)
        place = split_clusters(head[2]) if head is not None else None
        if head is None or place is None:
            return None
        return Visit(self.view((head[0], head[1])), *place)

    def view(self, key: ExportKey) -> ExportView:
        view = self._views.get(key)
        if view is None:
            view = self._make(key)
            if view.surface is not None:
                self._views[key] = view
                self._shrink()
        else:
            self._views.move_to_end(key)
        return view

    def _make(self, key: ExportKey) -> ExportView:
        cluster, name = key
        export = self._kinds.lookup.get(API_EXPORTS, cluster, name)
        surface = Surface(export, cluster, self._kinds) if export is not None else None
        return ExportView(
            cluster,
            name,
            surface,
            self._kinds.directory,
            self._access,
            self._grants,
            self._watches.get(key) or {},
        )

    def _shrink(self) -> None:
        if len(self._views) <= _KEEP:
            return
        idle = next((key for key, view in self._views.items() if not view.watches), None)
        if idle is not None:
            del self._views[idle]

    def _follow(self, events: Sequence[Event]) -> None:
        self._grants.follow(events)
        for event in events:
            key = event.key
            if key.startswith((_EXPORTS, _SCHEMAS)):
                self._changed(key, split_key(key).cluster)
            elif key.startswith(_BOUND):
                self.forget_all()

    def _changed(self, key: str, cluster: str) -> None:
        forget = self._forget_export if key.startswith(_EXPORTS) else self._forget_schema
        forget((cluster, split_key(key).name))

    def forget_all(self) -> None:
        for key in list(self._views):
            self._forget(key)

    def _forget_export(self, export: ExportKey) -> None:
        for key, view in list(self._views.items()):
            if key == export or (view.surface is not None and view.surface.depends_on_exports):
                self._forget(key)

    def _forget_schema(self, schema: ExportKey) -> None:
        for key, view in list(self._views.items()):
            if view.surface is not None and schema in view.surface.schemas:
                self._forget(key)

    def _forget(self, key: ExportKey) -> None:
        view = self._views.pop(key)
        if view.watches:
            self._watches[key] = view.watches
            # The new view can be built after all listeners have received the event.
            self._loop.call_soon(self._hand_over, key, view)

    def _hand_over(self, key: ExportKey, old: ExportView) -> None:
        """Watches of what is still the same go on in the new view; the others end."""
        new = self.view(key)
        self._watches.pop(key, None)
        for stream, (group, plural) in list(old.watches.items()):
            before, after = old.offer(group, plural), new.offer(group, plural)
            if before is None or after is None or before.sign != after.sign:
                stream.end()
