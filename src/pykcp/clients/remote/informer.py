"""An informer: lists all objects of one kind, then watches it.

It uses a streaming list if the server supports it, otherwise a list and a watch. Bookmarks record
the resource version from which a broken watch resumes. If the server has compacted that version
(410), everything is listed again and missed deletions are reported.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import orjson

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.response import TooLong
from pykcp.clients.interface import Change, Handler
from pykcp.clients.remote.client import RemoteClient, pause_before_repeat
from pykcp.clients.remote.errors import error_of, error_of_status
from pykcp.clients.remote.paths import with_query
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Expired, Gone, StatusError
from pykcp.types import Object

_log = logging.getLogger(__name__)

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 30.0
_STEADY = 5.0
"""Seconds after which a watch that ends was a good one."""
_WATCH_SECONDS = (300, 600)
"""How long a watch is asked to last: at random, so that those of many clients end apart."""
_MOST_BYTES = 1 << 20
"""Of an error."""
_INITIAL_END = "k8s.io/initial-events-end"
_NOT_ABOUT_STREAMS = frozenset((401, 404, 410, 429, 502, 503, 504))


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_event = msgspec.json.Decoder(_WatchEvent).decode


class ObjectHolder(Protocol):
    """What keeps the objects of an informer: in memory (`HeldObjects`) or in a store."""

    def put(self, value: bytes) -> Change | None:
        """An object as it is now; None if there is nothing to report."""

    def remove(self, value: bytes) -> Change | None:
        """An object that is gone, in its last state."""

    def begin_replacing(self) -> None:
        """All objects follow; those that do not are gone at `end_replacing`."""

    def end_replacing(self) -> Iterable[Change]: ...

    def contents(self) -> Iterable[Change]:
        """All objects, as if they had just been created."""

    async def settle(self) -> None:
        """Finish what `put`, `remove` and `end_replacing` have begun.

        If it fails, everything is read again.
        """


Holder = TypeVar("Holder", bound=ObjectHolder)


class Informer(Generic[Holder]):
    """`run` it; handlers are called for every change."""

    is_history_kept = True
    """Whether the server has the same history after it was away. One that may lose its data
    counts versions anew, so everything is read again."""

    def __init__(
        self,
        client: RemoteClient,
        kind: GroupVersionResource,
        held: Holder,
        cluster: str = "*",
        *,
        labels: str = "",
        streams_lists: bool = True,
        relist_seconds: float = 0.0,
        sleep: Callable[[float], Any] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`labels`: a selector of the objects; `streams_lists`: whether to ask for a streaming list
        first; `relist_seconds`: the least time between two full lists after 410.
        """
        self.held = held
        self.is_synced = asyncio.Event()
        self._client, self._kind, self._cluster = client, kind, cluster
        self._labels, self._relist_seconds, self._relisted = labels, relist_seconds, 0.0
        self._sleep, self._jitter = sleep, jitter
        self._handlers: list[Handler] = []
        self._version = ""
        """The resource version from which a watch resumes; "" for a full list."""
        self._streams_lists = streams_lists
        self._pause = _FIRST_PAUSE

    def add(self, handler: Handler) -> None:
        """Register a handler; it is called immediately for the known objects."""
        for change in self.held.contents():
            _call((handler,), change)
        self._handlers.append(handler)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            began = time.monotonic()
            failure: Exception | None = None
            try:
                await self._follow()
            except (Expired, Gone):
                self._version = ""  # the server has forgotten that place
                await self._pause_before_relist(began)
                continue
            except (StatusError, SendFailed, msgspec.MsgspecError) as error:
                failure = error
                self.report(error)
                if not self.is_history_kept:
                    self._version = ""
            if time.monotonic() - began > _STEADY:
                self._pause = _FIRST_PAUSE
                continue
            pause, self._pause = self._pause, min(2 * self._pause, _LAST_PAUSE)
            try:
                await self.rest(pause * (1 - self._jitter() / 2), failure)
            finally:
                del failure  # its traceback has this frame

    async def _pause_before_relist(self, now: float) -> None:
        due = self._relisted + self._relist_seconds
        if self._relisted and due > now:
            await self._sleep((due - now) * (1 + self._jitter() / 10))
        self._relisted = max(due, now)

    def report(self, error: Exception) -> None:
        """Log that a watch ended with an error."""
        level = logging.DEBUG if self._pause > _FIRST_PAUSE else logging.WARNING
        _log.log(level, "the watch of %s broke: %s", self._kind, error)

    def begin_anew(self) -> None:
        """Forget that attempts have failed: the next pause is short again."""
        self._pause = _FIRST_PAUSE

    async def rest(self, seconds: float, failure: Exception | None) -> None:
        """Wait before the next attempt."""
        await self._sleep(seconds)

    async def _follow(self) -> None:
        """One watch, with the content before it if its place is not known."""
        if self._version:
            await self._watch({"resourceVersion": self._version})
        elif self._streams_lists:
            await self._watch_from_nothing()
        else:
            await self._list()

    async def _watch_from_nothing(self) -> None:
        self.held.begin_replacing()
        try:
            await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        except StatusError as error:
            if self._version or error.code in _NOT_ABOUT_STREAMS:
                raise  # it had begun, or this is about something else
            self._streams_lists = False  # servers refuse it with various errors

    async def _list(self) -> None:
        self.held.begin_replacing()
        version = ""
        try:
            async for page in self._client.versioned_pages(
                self._cluster, self._kind, labels=self._labels
            ):
                self._put_all(page.objects)
                version = page.version
        except (Expired, Gone):
            # The moment of the first page is forgotten by now: all of it in one answer.
            found, version = await self._client.list_with_version(
                self._cluster, self._kind, labels=self._labels, is_paged=False
            )
            self.held.begin_replacing()
            self._put_all(found)
        self._replaced(version)
        await self._settle()

    def _put_all(self, objects: Iterable[Object]) -> None:
        for obj in objects:
            self._tell(self.held.put(orjson.dumps(obj)))

    async def _settle(self) -> None:
        try:
            await self.held.settle()
        except BaseException:
            self._version = ""  # what was lost is not sent again from that place
            raise

    def _replaced(self, version: str) -> None:
        for change in self.held.end_replacing():
            self._tell(change)
        self._version = version
        self.is_synced.set()

    async def _watch(self, place: dict[str, str | int | None]) -> None:
        seconds = int(_WATCH_SECONDS[0] + self._jitter() * (_WATCH_SECONDS[1] - _WATCH_SECONDS[0]))
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            "labelSelector": self._labels,
            **place,
        }
        target = with_query(self._client.collection(self._cluster, self._kind), query)
        client = self._client
        response = await client.http.request("GET", target, client.headers())
        try:
            if response.status >= 400:
                pause = pause_before_repeat(response)
                answer = await response.read(_MOST_BYTES)
                if pause is not None:
                    await self._sleep(pause)
                raise error_of(response.status, answer)
            self.connected()
            began = time.monotonic()
            async for batch in _batches(response.chunks(), client.limits.line):
                for line in batch:
                    self._heard(_decode_event(line))
                await self._settle()
            if not self.is_history_kept and time.monotonic() - began < seconds - 1:
                self._version = ""  # ended before its time: the server stops
        finally:
            response.close()

    def connected(self) -> None:
        """The server has accepted a watch."""

    def _heard(self, event: _WatchEvent) -> None:
        value = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED":
                change = self.held.put(value)
            case "DELETED":
                change = self.held.remove(value)
            case "BOOKMARK":
                self._bookmark(value)
                return
            case _:
                raise error_of_status(orjson.loads(value))
        self._tell(change)
        if self._version:  # while content streams, only its end is a place to go on from
            self._version = _version_of(value)

    def _bookmark(self, value: bytes) -> None:
        metadata = orjson.loads(value)["metadata"]
        if not self._version and _INITIAL_END not in (metadata.get("annotations") or {}):
            return
        if not self._version:
            self._replaced(metadata["resourceVersion"])
        self._version = metadata["resourceVersion"]

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            _call(self._handlers, change)


class _Place(msgspec.Struct, rename="camel"):
    resource_version: str


class _Placed(msgspec.Struct):
    metadata: _Place


_decode_place = msgspec.json.Decoder(_Placed).decode


def _version_of(value: bytes) -> str:
    return _decode_place(value).metadata.resource_version


async def lines(chunks: AsyncIterator[bytes], longest: int = 1 << 30) -> AsyncIterator[bytes]:
    """The lines of a text that comes in pieces, without empty ones.

    Raises TooLong for a line that is longer.
    """
    async for batch in _batches(chunks, longest):
        for line in batch:
            yield line


async def _batches(
    chunks: AsyncIterator[bytes], longest: int = 1 << 30
) -> AsyncIterator[list[bytes]]:
    """The lines that have arrived together. Raises TooLong for a line that is longer."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)  # joined once, when the end has come: lines may come in many pieces
        size += len(first)
        if size > longest:
            raise TooLong(longest)
        if others:
            complete = [b"".join(rest), *others[:-1]]
            rest, size = [others[-1]], len(others[-1])
            yield [line for line in complete if line]


def _call(handlers: list[Handler] | tuple[Handler, ...], change: Change) -> None:
    for handler in handlers:
        try:
            handler(change)
        except Exception:  # one handler's mistake must not blind the others
            _log.exception("a handler of %s failed", change.ref)
