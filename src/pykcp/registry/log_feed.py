"""The feed of a shard: the log of its store, first what it still holds, then live.

There are no caches: a handler sees the change, decides from its bytes whether it matters and
adds a key to a queue. At start the retained log is read again in the background, so that work
which a crash interrupted is found again; handlers are level-based and do not mind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pykcp.aio.slices import Slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Handler
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.codec import CLUSTER_ANNOTATION, decode
from pykcp.storage.errors import Compacted
from pykcp.storage.interface import Event, Query, Store
from pykcp.storage.keys import TRASH

_log = logging.getLogger(__name__)

_EVERYTHING = ""
_PAGE = 500


class LogFeed:
    """`start` it, then `run` it; handlers may be added at any time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_resource: dict[str, list[Handler]] = {}
        self._of_created: list[Handler] = []
        """For created objects of all kinds."""
        self._of_updated: list[Handler] = []
        self._of_deleted: list[Handler] = []
        self._from_the_start: list[tuple[str, Handler]] = []
        self._unread: list[tuple[str, Handler]] = []
        """Those whose objects have not been told yet."""
        self._at_start: list[Callable[[], Awaitable[None]]] = []
        self._resumes: list[Callable[[], Awaitable[None]]] = []
        """Those that have not run yet."""
        self._after: dict[str, int] = {}
        self._until = 0
        self._unlisten: Callable[[], None] | None = None
        self._synced = asyncio.Event()

    def on(
        self, kind: GroupVersionResource, handler: Handler, *, from_the_start: bool = False
    ) -> None:
        """Call the handler for changes of a kind: those in the log, or all that there is first."""
        resource = kind_id(kind)
        if from_the_start:
            self._from_the_start.append((resource, handler))
            self._unread.append((resource, handler))
        self.on_resource(resource, handler)

    def on_resource(self, resource: str, handler: Handler) -> None:
        """Call the handler for changes of what `resource_id` names."""
        self._by_resource.setdefault(resource, []).append(handler)

    def on_everything(self, handler: Handler, *, with_updates: bool = True) -> None:
        self._of_created.append(handler)
        if with_updates:
            self._of_updated.append(handler)
        self._of_deleted.append(handler)

    def on_deletions(self, handler: Handler) -> None:
        self._of_deleted.append(handler)

    def at_start(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Run this once in the background, after the log: work found by index."""
        self._at_start.append(resume)
        self._resumes.append(resume)

    def start(self) -> None:
        """Follow from now on; `run` then reads what was before, also after a `stop`."""
        self._unread, self._resumes = [*self._from_the_start], [*self._at_start]
        self._after.clear()
        self._until = self._store.revision
        self._unlisten = self._store.listen(self.deliver)

    def stop(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    async def synced(self) -> None:
        """Return when what was there at the start has been told."""
        await self._synced.wait()

    def deliver(self, events: Sequence[Event]) -> None:
        by_resource = self._by_resource
        for event in events:
            group, plural, cluster, namespace, name = event.key.split("/", 4)
            resource = f"{group}/{plural}"
            handlers = by_resource.get(resource)
            of_all = self._of_any(event) if group[0] != TRASH else ()
            if not handlers and not of_all:
                continue
            change = Change(
                (resource, cluster, namespace, name),
                event.revision,
                event.value,
                event.terms,
                event.created,
                event.deleted,
                self._store.get_before,
            )
            if handlers:
                _call(handlers, change)
            if of_all:
                _call(of_all, change)

    def _of_any(self, event: Event) -> Sequence[Handler]:
        """Handlers of such an event, whatever it is about."""
        if event.deleted:
            return self._of_deleted
        return self._of_created if event.created else self._of_updated

    async def run(self) -> None:
        """Read the retained log, then resume by index; ends when both are done.

        A run that failed goes on where it was.
        """
        while self._unread:
            await self._tell_content(*self._unread[0])
            del self._unread[0]
        prefixes = (_EVERYTHING,) if self._of_deleted else tuple(f"{r}/" for r in self._by_resource)
        for prefix in prefixes:
            await self._replay(prefix)
        self._synced.set()
        while self._resumes:
            await self._resumes[0]()
            del self._resumes[0]

    async def _tell_content(self, resource: str, handler: Handler) -> None:
        """Every object that there is, as if it had just been created."""
        after, slices = "", Slices()
        while True:
            page = await self._store.list(Query(f"{resource}/", after=after, limit=_PAGE))
            for value in page.values:
                metadata = decode(value)["metadata"]
                cluster = metadata["annotations"][CLUSTER_ANNOTATION]
                ref = ObjectRef(resource, cluster, metadata.get("namespace", ""), metadata["name"])
                entry = self._store.get(str(ref))
                if entry is not None:
                    found = (entry.revision, entry.value, entry.terms, True, False)
                    _call((handler,), Change(ref, *found, self._store.get_before))
                if slices.is_over():
                    await slices.next()
            if not page.next_after:
                return
            after = page.next_after

    async def _replay(self, prefix: str) -> None:
        store = self._store
        while True:
            after = max(self._after.get(prefix, 0), store.compacted)
            if after >= self._until:
                return
            try:
                page = await store.history(prefix, after, self._until, _PAGE)
            except Compacted:
                continue  # it was compacted meanwhile: what is gone is found by index
            self.deliver(page.events)
            self._after[prefix] = page.reached
            await asyncio.sleep(0)


def _call(handlers: Sequence[Handler], change: Change) -> None:
    for handler in handlers:
        try:
            handler(change)
        except Exception:  # one controller's mistake must not blind the others
            _log.exception("a handler of %s failed", change.ref)
