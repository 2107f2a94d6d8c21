"""All exports' views: made when first visited, kept within bounds, forgotten by events."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from pykcp.aio.owner import spawn_detached
from pykcp.aio.slices import in_slices
from pykcp.auth.authz.chain import Authorizer
from pykcp.cache.scopes import split
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp.clusters import SYSTEM_BOUND_CRDS
from pykcp.machinery.resources import (
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
)
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.stored import Event, StoreReader
from pykcp.server.filters.flow_own_work import OwnWork
from pykcp.virtual.apiexport.access import ExportViewAccess
from pykcp.virtual.apiexport.grants import BINDINGS, ExportKey, Grants
from pykcp.virtual.apiexport.surface import Surface, ViewKinds
from pykcp.virtual.apiexport.view import ExportView
from pykcp.virtual.framework import Visit, split_clusters, split_head

_EXPORTS = kind_prefix(API_EXPORTS)
_SCHEMAS = kind_prefix(API_RESOURCE_SCHEMAS)
_BOUND = f"{kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)}{SYSTEM_BOUND_CRDS}/"
_KEEP = 512
_KEEP_SIZE = 1 << 16
"""Resources and claims of all views that nobody watches."""
_LONGEST_PAUSE = 1.0


class _Status(msgspec.Struct, rename="camel"):
    identity_hash: str = ""


class _Identity(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decode_identity = msgspec.json.Decoder(_Identity).decode


class ApiExportWorkspace:
    name = "apiexport"
    checks: tuple[str, ...] = ("apiexport",)

    def __init__(
        self,
        store: StoreReader,
        kinds: ViewKinds,
        authorizer: Authorizer,
        work: OwnWork | None = None,
    ) -> None:
        """`work`: charges a logical cluster for what is done because its exports change."""
        self._kinds, self._work = kinds, work
        self._grants = Grants(store)
        self._access = ExportViewAccess(kinds.lookup, authorizer, self._grants)
        self._views: OrderedDict[ExportKey, ExportView] = OrderedDict()
        """Those that are ready."""
        self._size = 0
        """Of their surfaces."""
        self._visited: BoundedCache[ExportKey, ExportView] = BoundedCache("visited-exports", _KEEP)
        """Those that nobody has been allowed to see yet, so that they are made once."""
        self._filling: set[ExportView] = set()
        self._outdated: dict[ExportKey, list[ExportView]] = {}
        """Views whose watches must be looked at."""
        self._reviewing: dict[ExportKey, asyncio.Task[None]] = {}
        store.listen(self._follow, (BINDINGS, _EXPORTS, _SCHEMAS, _BOUND))

    def follow_cache(self, store: StoreReader, own_shard: str) -> None:
        """Other shards' exports and schemas come through the cache."""

        def follow(events: Sequence[Event]) -> None:
            for event in events:
                if event.key.startswith((_EXPORTS, _SCHEMAS)):
                    shard, cluster = split(split_key(event.key).cluster)
                    if shard != own_shard:
                        self._changed(event, cluster)

        store.listen(follow, (_EXPORTS, _SCHEMAS))

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 2)
        place = split_clusters(head[2]) if head is not None else None
        if head is None or place is None:
            return None
        return Visit(self.view((head[0], head[1])), *place)

    def view(self, key: ExportKey) -> ExportView:
        view = self._views.get(key)
        if view is not None:
            self._views.move_to_end(key)
            return view
        view = self._visited.get(key)
        if view is None or view.is_ready:
            view = ExportView(*key, self._kinds, self._access, self._grants, self)
            self._visited.put(key, view)
        return view

    async def fill(self, view: ExportView) -> None:
        """Find out what a view shows, and follow what that depends on."""
        self._filling.add(view)
        try:
            await in_slices(view.fill(), view.key[0])
        finally:
            self._filling.discard(view)
        if self._visited.get(view.key) is view:
            self._visited.pop(view.key)
        if view.surface is not None and not view.is_outdated:
            self._keep(view, view.surface)

    def _keep(self, view: ExportView, surface: Surface) -> None:
        self._drop(view.key)
        self._views[view.key] = view
        self._size += surface.size
        while len(self._views) > _KEEP or self._size > _KEEP_SIZE:
            idle = next(
                (k for k, v in self._views.items() if not v.watches and v is not view), None
            )
            if idle is None:
                return
            self._drop(idle)

    def _drop(self, key: ExportKey) -> ExportView | None:
        view = self._views.pop(key, None)
        if view is not None and view.surface is not None:
            self._size -= view.surface.size
        return view

    def _follow(self, events: Sequence[Event]) -> None:
        self._grants.follow(events)
        for event in events:
            key = event.key
            if key.startswith((_EXPORTS, _SCHEMAS)):
                self._changed(event, split_key(key).cluster)
            elif key.startswith(_BOUND):
                self._forget_bound(split_key(key).name)

    def _changed(self, event: Event, cluster: str) -> None:
        place = cluster, split_key(event.key).name
        if event.key.startswith(_EXPORTS):
            self._forget_export(place, event.value)
        else:
            self._forget_schema(place)

    def _forget_bound(self, uid: str) -> None:
        """A schema was bound for the first time, or is bound no longer."""
        self._forget(lambda view: view.draft is not None and uid in view.draft.uids)

    def _forget_export(self, export: ExportKey, value: bytes) -> None:
        """Views of an export, and those that claim something of it, now or before."""
        if not self._views and not self._filling:
            return
        identity = _decode_identity(value).status.identity_hash

        def is_concerned(view: ExportView) -> bool:
            draft = view.draft
            return view.key == export or (
                draft is not None and (export in draft.exports or identity in draft.identities)
            )

        self._forget(is_concerned)

    def _forget_schema(self, schema: ExportKey) -> None:
        self._forget(lambda view: view.draft is not None and schema in view.draft.schemas)

    def _forget(self, is_concerned: Callable[[ExportView], bool]) -> None:
        for view in (*self._views.values(), *self._filling):
            if is_concerned(view):
                view.is_outdated = True
                if self._views.get(view.key) is view:
                    self._drop(view.key)
                if view.watches:
                    self._review(view)

    def watched(self, view: ExportView) -> None:
        """It may have changed, or have been dropped, since the request came."""
        if self._views.get(view.key) is not view:
            self._review(view)

    def _review(self, view: ExportView) -> None:
        self._outdated.setdefault(view.key, []).append(view)
        if view.key not in self._reviewing:
            # The new view can be built after all listeners have received the event.
            task = spawn_detached(self._hand_over(view.key), "watches of an export's view")
            self._reviewing[view.key] = task

    async def _hand_over(self, key: ExportKey) -> None:
        """Move watches to the view as it is now."""
        try:
            while key in self._outdated:
                began = time.perf_counter()
                new = self.view(key)
                if self._work is None:
                    await new.prepare()
                else:
                    await self._work.run(key[0], new.prepare())
                for old in self._outdated.pop(key):
                    if old is not new:
                        old.hand_over(new)
                if new.watches and new.is_outdated:
                    self._outdated.setdefault(key, []).append(new)
                # Whoever changes an export in a loop does not keep the process busy with it.
                spent = time.perf_counter() - began
                await asyncio.sleep(min(_LONGEST_PAUSE, 3 * spent) if key in self._outdated else 0)
        finally:
            del self._reviewing[key]
            for old in self._outdated.pop(key, ()):  # there was an error: clients list again
                old.end_watches()
