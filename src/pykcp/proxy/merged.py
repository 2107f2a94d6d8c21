"""`/services/merged/…`: a collection of all shards as one, listed and watched in one request.

`/services/merged/apiexport/<cluster>/<export>/clusters/*/apis/…` is the virtual workspace of an
export over all shards, `/services/merged/clusters/*/api/…` are all logical clusters. Every shard
authorizes the caller as if it had been asked itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

import msgspec

from pykcp.aio.owner import spawn
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.response import HttpResponse, TooLong
from pykcp.clients.peers import Peers
from pykcp.clients.remote.errors import error_of, error_of_status
from pykcp.clients.remote.informer import lines
from pykcp.clients.where import OF_ALL_SHARDS, PROGRESS, WHERE, decode_reached
from pykcp.machinery.status import BadRequest, Expired, MethodNotAllowed, StatusError
from pykcp.proxy.lookup import ShardsAway
from pykcp.proxy.merge import (
    EventMerge,
    ListPart,
    PageToken,
    decode_part,
    decode_token,
    error_line,
    read_line,
    tail,
)
from pykcp.proxy.progress import ShardProgress
from pykcp.server.call import Call
from pykcp.server.media.answers import JSON_HEADERS
from pykcp.wire.exchange import Header, Stream

_log = logging.getLogger(__name__)

MERGED = "/services/merged/"
_PAGE, _PAGE_BYTES = 500, 8 << 20
"""What a shard is asked for at a time, whatever the client asks for; a page of large objects is
asked for again in smaller parts."""
_MOST_BYTES = 64 << 20
_BACKLOG = 256 << 10
_SECONDS = 5.0
"""For which a watch goes on without a shard."""
_RETRY, _POLL = 0.1, 0.05
_LIST_TRIES = 3
_SHORT_BYTES = 1 << 20
"""A list of up to so many octets is answered when it is complete; an error can still be its answer."""
_BOOKMARK_SECONDS = 10.0
_FIRST_HYBRID = 1 << 38
"""Revisions below are those of a server that counts for itself: they cannot be compared."""
_PARTIAL = "partial"
"""Query of a list: without the shards that do not answer, which a warning names."""
_PLACE = frozenset(("resourceVersion", "resourceVersionMatch", "limit", "continue", _PARTIAL))
_INITIAL_END = b'"annotations":{"k8s.io/initial-events-end":"true"},'
_FAILURES = (StatusError, SendFailed, TimeoutError, msgspec.MsgspecError)

Query = list[tuple[str, str]]


class ShardReads(Protocol):
    """How shards are asked in the name of a user."""

    def names(self) -> list[str]: ...

    async def get(self, shard: str, target: str, headers: Sequence[Header]) -> HttpResponse:
        """Raises SendFailed."""


class MergedRequest(NamedTuple):
    call: Call
    path: str
    """At each shard."""
    query: Query
    """Without what says where to begin."""
    asked: dict[str, str]
    """The whole query."""
    headers: Sequence[Header]

    def target(self, **more: object) -> str:
        given = [*self.query, *((name, str(value)) for name, value in more.items() if value != "")]
        return f"{self.path}?{urlencode(given)}" if given else self.path

    @property
    def is_watch(self) -> bool:
        return self.is_true("watch")

    def is_true(self, name: str) -> bool:
        return self.asked.get(name, "false") not in ("false", "0")


def read_request(call: Call, headers: Sequence[Header]) -> MergedRequest:
    """Raises the error to answer."""
    request = call.exchange.request
    if request.method != "GET":
        raise MethodNotAllowed("the server does not allow this method on the requested resource")
    rest = request.path[len(MERGED) :]
    path = f"/{rest}" if rest.startswith("clusters/") else f"/services/{rest}"
    pairs = parse_qsl(request.query, keep_blank_values=True)
    query = [pair for pair in pairs if pair[0] not in _PLACE]
    accepted = (request.header("accept") or "").split(",")
    accept = ",".join(one for one in accepted if "application/json" in one) or "application/json"
    kept = [header for header in headers if header[0] not in ("accept", "accept-encoding")]
    return MergedRequest(call, path, query, dict(pairs), [*kept, ("accept", accept)])


_ShardPart = tuple[str, ListPart]
"""A page of a shard."""


class _OpenList(NamedTuple):
    shards: list[str]
    revision: int
    read: list[_ShardPart]
    """Its beginning."""
    rest: AsyncIterator[_ShardPart]

    async def parts(self) -> AsyncIterator[_ShardPart]:
        for one in self.read:
            yield one
        async for one in self.rest:
            yield one


class MergedCollections:
    def __init__(self, reads: ShardReads, peers: Peers) -> None:
        self._reads, self._peers = reads, peers
        self._progress: dict[str, ShardProgress] = {}
        self._known_to: dict[str, Sequence[str]] = {}
        """All shards, as those that know them (the one with `root`) said when they were asked last."""

    async def send_watch(
        self, asked: MergedRequest, beginning: AbstractAsyncContextManager[None]
    ) -> None:
        """To its end. `beginning`: entered until only events follow. Raises the error to answer."""
        await _MergedWatch(self, asked).run(beginning)

    # --- revisions

    async def moment(self, at_least: int = 0, *, is_partial: bool = False) -> tuple[list[str], int]:
        """The shards, and a revision that all of them have reached. Raises ShardsAway.

        `is_partial`: only those that answer, if any does. There is no other shard at that revision:
        the shard that has `root` says so, since this proxy may not have heard of one yet.
        """
        deadline = time.monotonic() + _SECONDS
        while True:
            shards = self._reads.names()
            found, revision = await self._moment_of(shards, at_least, is_partial)
            missing = sorted(self._joined(found).difference(shards))
            if not missing:
                return found, revision
            if time.monotonic() > deadline:
                raise ShardsAway(missing)
            await asyncio.sleep(_RETRY)

    def _joined(self, answered: Iterable[str]) -> set[str]:
        """All shards there are, as those that answered a moment ago know them."""
        return {name for shard in answered for name in self._known_to.get(shard, ())}

    async def _moment_of(
        self, shards: list[str], at_least: int, is_partial: bool
    ) -> tuple[list[str], int]:
        found = await self._on_all(shards, lambda shard: self.advance(shard, 0), is_partial)
        if len(found) > 1 and min(found.values()) < _FIRST_HYBRID:
            raise ShardsAway(["revisions cannot be compared yet"])
        revision = max((*found.values(), at_least))
        found = await self._on_all(found, lambda shard: self.advance(shard, revision), is_partial)
        return list(found), revision

    async def _on_all(
        self, shards: Iterable[str], ask: Callable[[str], Any], is_partial: bool
    ) -> dict[str, int]:
        asked = list(shards)
        results = await asyncio.gather(*map(ask, asked), return_exceptions=True)
        found = {s: r for s, r in zip(asked, results, strict=True) if isinstance(r, int)}
        away = [shard for shard in asked if shard not in found]
        if not found or (away and not is_partial):
            raise ShardsAway(away or ["no shard is known yet"])
        return found

    async def advance(self, shard: str, revision: int) -> int:
        """How far a shard is, after it has reached a revision. Raises one of _FAILURES.

        Watches ask at the same time, all when the same event waits: one question is under way, and
        the next is for all who asked meanwhile.
        """
        advance = self._progress.get(shard)
        if advance is None:
            advance = self._progress[shard] = ShardProgress(partial(self._advance, shard))
        return await advance.ask(revision)

    async def _advance(self, shard: str, revision: int) -> int:
        client = self._peers.client(shard)
        async with asyncio.timeout(_SECONDS):
            response = await client.http.request(
                "GET", f"{WHERE}?advance={revision}", client.headers()
            )
            body = await response.read(_MOST_BYTES)
        if response.status != 200:
            raise error_of(response.status, body)
        reached = decode_reached(body)
        if reached.shards:
            self._known_to[shard] = reached.shards
        return reached.revision

    async def open(self, shard: str, asked: MergedRequest, **more: object) -> HttpResponse:
        """Raises SendFailed, or the error that the shard answers."""
        response = await self._reads.get(shard, asked.target(**more), asked.headers)
        if response.status != 200:
            raise error_of(response.status, await response.read(_MOST_BYTES))
        return response

    # --- lists

    async def send_list(self, asked: MergedRequest) -> None:
        """Raises the error to answer."""
        limit = _number(asked, "limit")
        found = await self._opened(asked, limit)
        missing = _missing(self._reads.names(), found.shards)
        stream = asked.call.exchange.start(200, [*JSON_HEADERS, *missing])
        try:
            await _write_list(stream, found, limit)
        except BaseException:
            stream.abort()  # or the client would wait for the rest
            raise

    async def _opened(self, asked: MergedRequest, limit: int) -> _OpenList:
        """A list of which so much has been read that it is short, or too long to be kept."""
        token = asked.asked.get("continue", "")
        for is_last in (*[False] * (_LIST_TRIES - 1), True):
            shards, start = await self._beginning(asked, _decode(token) if token else None)
            pages, read, size = self.pages(asked, shards, start, limit), list[_ShardPart](), 0
            try:
                async for one in pages:
                    read.append(one)
                    size += sum(map(len, one[1].members))
                    if size > _SHORT_BYTES:
                        break
            except Expired:
                # A logical cluster has come to a shard since the moment was chosen.
                if is_last or token or asked.asked.get("resourceVersion"):
                    raise
            else:
                if not read:
                    raise Expired("The provided continue parameter names a shard that is gone.")
                return _OpenList(shards, start.revision, read, pages)
        raise AssertionError

    async def _beginning(
        self, asked: MergedRequest, start: PageToken | None
    ) -> tuple[list[str], PageToken]:
        is_partial = asked.is_true(_PARTIAL)
        if start is not None and not is_partial:
            return self._reads.names(), start
        at_least = start.revision if start else _number(asked, "resourceVersion")
        shards, revision = await self.moment(at_least, is_partial=is_partial)
        return shards, start or PageToken(revision, "", "")

    async def pages(
        self, asked: MergedRequest, shards: Sequence[str], start: PageToken, limit: int = 0
    ) -> AsyncIterator[_ShardPart]:
        """The pages of all shards, one after the other, as they were at one revision."""
        asked = asked._replace(headers=[*asked.headers, (OF_ALL_SHARDS, "1")])
        left = limit
        for shard in shards:
            if shard < start.shard:
                continue
            inner = start.inner if shard == start.shard else ""
            while True:
                most = min(left, _PAGE) if limit else _PAGE
                part = await self._page(shard, asked, start.revision, inner, most)
                yield shard, part
                left -= len(part.members)
                if limit and left <= 0:
                    return
                inner = part.next_token
                if not inner:
                    break

    async def _page(
        self, shard: str, asked: MergedRequest, revision: int, inner: str, limit: int
    ) -> ListPart:
        place: dict[str, object] = {
            "resourceVersion": revision,
            "resourceVersionMatch": "Exact",
        }
        if inner:
            place = {"continue": inner}
        try:
            while True:
                response = await self.open(shard, asked, limit=limit, **place)
                try:
                    return decode_part(
                        await response.read(_PAGE_BYTES if limit > 1 else _MOST_BYTES)
                    )
                except TooLong:
                    if limit == 1:
                        raise
                    limit = max(1, limit // 8)
        except (SendFailed, msgspec.MsgspecError) as error:
            raise ShardsAway([shard]) from error


async def _write_list(stream: Stream, found: _OpenList, limit: int) -> None:
    count = 0
    stream.write(found.read[0][1].head())
    async for shard, part in found.parts():
        stream.write((b"," if count and part.members else b"") + b",".join(part.members))
        count += len(part.members)
        if stream.backlog > _BACKLOG:
            await stream.drain()
        if limit and count >= limit:
            following = _next_page(found.revision, found.shards, shard, part.next_token)
            stream.write(tail(found.revision, following))
            stream.end()
            return
    stream.write(tail(found.revision))
    stream.end()


def _missing(all_shards: Sequence[str], shards: Sequence[str]) -> Iterator[Header]:
    """A warning that names the shards whose objects are not in the answer."""
    away = ", ".join(shard for shard in all_shards if shard not in shards)
    if away:
        yield ("warning", f'299 - "shards do not answer, and their objects are missing: {away}"')


def _number(asked: MergedRequest, name: str) -> int:
    text = asked.asked.get(name, "") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest(f'invalid {name}: "{text}" is not a number')
    return int(text)


def _decode(token: str) -> PageToken:
    try:
        return decode_token(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest("continue key is not valid") from error


def _next_page(revision: int, shards: Sequence[str], shard: str, inner: str) -> str:
    """The token of the page after one that ended at a shard; "" if it was the last."""
    if not inner:
        following = [name for name in shards if name > shard]
        if not following:
            return ""
        shard = following[0]
    made = msgspec.json.encode(PageToken(revision, shard, inner))
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _MergedWatch:
    """One watch over all shards."""

    def __init__(self, collections: MergedCollections, asked: MergedRequest) -> None:
        self._collections, self._asked = collections, asked
        self._wants_bookmarks = asked.is_true("allowWatchBookmarks")
        self._has_news = asyncio.Event()
        self._bookmark: bytes = b""
        """The last one of any shard, as a pattern for ours."""
        self._bookmarked = self._waiting_since = time.monotonic()
        self._reached = 0

    async def run(self, beginning: AbstractAsyncContextManager[None]) -> None:
        """To the end. Raises the error to answer if it cannot begin."""
        async with beginning:
            tasks = await self._begin()
        try:
            await self._deliver(tasks)
        finally:
            await _cancel(tasks)

    async def _begin(self) -> list[asyncio.Task[None]]:
        """Up to what comes after the objects that there are; the tasks that follow the shards."""
        asked, collections = self._asked, self._collections
        version = _number(asked, "resourceVersion")
        sends_initial = asked.is_true("sendInitialEvents") or not version
        shards, revision = await collections.moment(version)
        since = revision if sends_initial else version
        self._merge = EventMerge(shards, since)
        opened = await asyncio.gather(
            *(self._open(shard) for shard in shards), return_exceptions=True
        )
        failed = [one for one in opened if isinstance(one, BaseException)]
        responses = [one for one in opened if not isinstance(one, BaseException)]
        if failed:
            for response in responses:
                response.close()
            raise failed[0] if isinstance(failed[0], StatusError) else ShardsAway(shards)
        self._stream = asked.call.exchange.start(200, JSON_HEADERS)
        self._stream.on_close(self._has_news.set)
        tasks = [
            spawn(self._follow(shard, response), "merged watch")
            for shard, response in zip(shards, responses, strict=True)
        ]
        for task in tasks:
            task.add_done_callback(lambda _: self._has_news.set())
        try:
            if sends_initial:
                await self._send_initial(shards, revision)
        except BaseException as error:
            await _cancel(tasks)
            if isinstance(error, StatusError):
                self._stream.write(error_line(error))
                self._stream.end()
            else:
                self._stream.abort()
            raise
        return tasks

    async def _open(self, shard: str) -> HttpResponse:
        drop = ("sendInitialEvents", "allowWatchBookmarks")
        query = [pair for pair in self._asked.query if pair[0] not in drop]
        headers = [*self._asked.headers, (PROGRESS, "1")]
        asked = self._asked._replace(query=query, headers=headers)
        place = {"resourceVersion": self._merge.progress(shard)}
        return await self._collections.open(shard, asked, allowWatchBookmarks="true", **place)

    async def _send_initial(self, shards: Sequence[str], revision: int) -> None:
        asked = self._asked
        drop = ("watch", "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds")
        listed = asked._replace(query=[pair for pair in asked.query if pair[0] not in drop])
        async for _, part in self._collections.pages(listed, shards, PageToken(revision, "", "")):
            kind, version = part.kind.removesuffix("List").encode(), part.api_version.encode()
            for member in part.members:
                obj = bytes(member)
                if b'"kind"' not in obj[:80]:  # members of lists of built-in kinds lack their type
                    obj = b'{"kind":"%b","apiVersion":"%b",%b' % (kind, version, obj[1:])
                self._stream.write(b'{"type":"ADDED","object":%b}\n' % obj)
            if not self._bookmark:
                self._bookmark = b'{"type":"BOOKMARK","object":{"kind":"%b","apiVersion":"%b",' % (
                    kind, version,
                )  # fmt: skip
            if self._stream.backlog > _BACKLOG:
                await self._stream.drain()
        if self._wants_bookmarks and asked.is_true("sendInitialEvents"):
            self._send_bookmark(revision, _INITIAL_END)

    def _send_bookmark(self, revision: int, marks: bytes = b"") -> None:
        if self._bookmark:
            place = b'"metadata":{%b"resourceVersion":"%d"}}}\n' % (marks, revision)
            self._stream.write(self._bookmark + place)
            self._bookmarked = time.monotonic()

    # --- from the shards

    async def _follow(self, shard: str, response: HttpResponse) -> None:
        """Until the shard is away for too long, or has forgotten where the watch is."""
        while True:
            try:
                async for line in lines(response.chunks()):
                    self._heard(shard, line)
            except SendFailed as error:
                _log.debug("the watch of shard %s broke: %s", shard, error)
            finally:
                response.close()
            response = await self._reopen(shard)

    def _heard(self, shard: str, data: bytes) -> None:
        line = read_line(data)
        if line.type == "ERROR":
            raise error_of_status(msgspec.json.decode(data)["object"], 410)
        is_bookmark = line.type == "BOOKMARK"
        if is_bookmark and not self._bookmark:
            self._bookmark = data.partition(b'"metadata"')[0]
        self._merge.receive(shard, line.revision, None if is_bookmark else data + b"\n")
        self._has_news.set()

    async def _reopen(self, shard: str) -> HttpResponse:
        """Raises Expired if the shard stays away."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return await self._open(shard)
            except _FAILURES as error:
                if time.monotonic() > deadline or isinstance(error, Expired):
                    raise Expired(f"shard {shard} does not answer") from error
            await asyncio.sleep(_RETRY)

    # --- to the client

    async def _deliver(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Pass events on as soon as they can leave, until the client or a shard goes."""
        stream, merge = self._stream, self._merge
        seconds = _number(self._asked, "timeoutSeconds")
        deadline = time.monotonic() + seconds if seconds else inf
        while not stream.closed:
            ready = merge.take()
            if ready:
                stream.write(b"".join(ready))
                if stream.backlog > _BACKLOG:
                    await stream.drain()
            self._mark_progress()
            problem = self._problem(tasks)
            if problem is not None:
                stream.write(error_line(problem))
            if problem is not None or time.monotonic() >= deadline:
                stream.end()
                return
            await self._wait(deadline)

    async def _wait(self, deadline: float) -> None:
        """For news; while an event waits for other shards, they are asked how far they are."""
        self._has_news.clear()
        pause = min(deadline - time.monotonic(), _BOOKMARK_SECONDS)
        if self._merge.wanted:
            pause = min(pause, _POLL)
            await self._push()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_news.wait(), max(pause, 0.0))

    def _problem(self, tasks: Sequence[asyncio.Task[None]]) -> StatusError | None:
        """Why the watch cannot go on."""
        for task in tasks:
            if task.done():
                error = task.exception()
                return error if isinstance(error, StatusError) else Expired("a shard is away")
        now = time.monotonic()
        if not self._merge.wanted or self._merge.reached > self._reached:
            self._reached, self._waiting_since = self._merge.reached, now
        elif now - self._waiting_since > _SECONDS:
            names = ", ".join(self._merge.lagging())
            return Expired(f"shards do not answer: {names}")
        return None

    def _mark_progress(self) -> None:
        is_due = time.monotonic() - self._bookmarked > _BOOKMARK_SECONDS
        if self._wants_bookmarks and is_due and not self._merge.wanted:
            self._send_bookmark(self._merge.reached)

    async def _push(self) -> None:
        """Have the shards that an event waits for say that they have no older one."""
        wanted = self._merge.wanted
        pushes = (self._collections.advance(shard, wanted) for shard in self._merge.lagging())
        await asyncio.gather(*pushes, return_exceptions=True)
