"""The innocent tenant: reads, writes and watches at a steady rate, in a process of its own.

Requests are sent when they are due, whether earlier ones are answered or not, so that the longest
delay is as long as the server was held up. How late the process itself was is measured too: what
is not more than that says nothing about the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from http2client import Connection, Reply
from stalls_places import Place, Room

GETS_PER_SECOND = 100
WRITES_PER_SECOND = 20
_OBJECTS = 10
_LAST_ANSWERS = 20.0
"""Seconds that answers may still take when the sampling is over."""
_SLOW_GET, _SLOW_WRITE = 0.05, 0.1
_MERGE = "application/merge-patch+json"


@dataclass(slots=True)
class Delays:
    """Seconds, and what went wrong."""

    gets: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    watches: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    """By how much this process itself was late."""
    slow: list[tuple[float, str, float]] = field(default_factory=list)
    """Requests that took too long: when they were answered, what they were, how long they took."""
    failures: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Acknowledged writes that the watch did not show, or not in order."""
    kept: int = 0
    not_read_back: int = 0

    def fail(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1


def part(values: list[float], share: float) -> float:
    """A percentile in milliseconds; the longest for 1."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


class Innocent:
    """One measurement."""

    def __init__(self, place: Place, room: Room, *, keeps: bool = False) -> None:
        """`keeps`: every other write creates an object, and all are read back in the end."""
        self._keeps = keeps
        self._kept: set[str] = set()
        self._target = place.target(room)
        self._base = f"{room.prefix}/api/v1/namespaces/{room.namespace}/configmaps"
        self._delays = Delays()
        self._sent: dict[str, float] = {}
        """Writes by their number, and when they were sent."""
        self._acknowledged: list[str] = []
        self._shown: dict[str, float] = {}
        self._last_version = 0
        self._number = 0
        self._run = f"{time.time_ns():x}"
        """Part of what is written, since a write that changes nothing is no event."""
        self._rest = b""
        self._pending: set[asyncio.Task[None]] = set()
        self._connections: list[Connection] = []

    async def open(self) -> None:
        self._reading = await self._target.connect()
        self._writing = await self._target.connect()
        self._connections = [self._reading, self._writing]
        for n in range(_OBJECTS):
            body = {"metadata": {"name": f"innocent-{n}"}, "data": {"n": "0", "text": "x" * 1000}}
            reply = await self._writing.request("POST", self._base, json.dumps(body).encode())
            assert reply.status in (201, 409), (reply.status, reply.content()[:500])
        reply = await self._writing.request("GET", self._base)
        version = json.loads(reply.content())["metadata"]["resourceVersion"]
        path = f"{self._base}?watch=1&resourceVersion={version}"
        watching = await self._writing.request("GET", path, on_data=self._on_event)
        assert watching.status == 200, watching.status

    async def close(self) -> None:
        for connection in self._connections:
            connection.close()
            await connection.wait_closed()

    async def sample(self, is_over: Callable[[], bool]) -> Delays:
        await asyncio.gather(
            self._repeat(GETS_PER_SECOND, self._get, is_over),
            self._repeat(WRITES_PER_SECOND, self._act, is_over),
        )
        if self._pending:
            await asyncio.wait(self._pending, timeout=_LAST_ANSWERS)
        for task in self._pending:
            task.cancel()
        await self._settle()
        if self._keeps:
            await self._read_back()
        delays = self._delays
        delays.watches = [
            self._shown.get(number, time.perf_counter()) - self._sent[number]
            for number in self._acknowledged
        ]
        delays.lost += sum(number not in self._shown for number in self._acknowledged)
        return delays

    async def _settle(self) -> None:
        """Give the watch time to show the last writes."""
        deadline = time.perf_counter() + 5
        while time.perf_counter() < deadline:
            if all(number in self._shown for number in self._acknowledged):
                return
            await asyncio.sleep(0.02)

    async def _repeat(
        self, rate: float, act: Callable[[], Any], is_over: Callable[[], bool]
    ) -> None:
        due = time.perf_counter()
        while not is_over():
            task = asyncio.ensure_future(act())
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
            due = max(due + 1 / rate, time.perf_counter() - 1)
            await asyncio.sleep(due - time.perf_counter())
            self._delays.late.append(max(0.0, time.perf_counter() - due))

    async def _get(self) -> None:
        path = f"{self._base}/innocent-{self._number % _OBJECTS}"
        await self._timed(self._delays.gets, "GET", lambda: self._reading.request("GET", path))

    def _act(self) -> Coroutine[Any, Any, None]:
        return self._create() if self._keeps and self._number % 2 else self._write()

    async def _write(self) -> None:
        self._number += 1
        number = f"{self._run}-{self._number}"
        path = f"{self._base}/innocent-{self._number % _OBJECTS}"
        body = json.dumps({"data": {"n": number}}).encode()
        self._sent[number] = time.perf_counter()
        reply = await self._timed(
            self._delays.writes,
            "PATCH",
            lambda: self._writing.request("PATCH", path, body, _MERGE),
        )
        if reply is not None and reply.status == 200:
            self._acknowledged.append(number)

    async def _create(self) -> None:
        self._number += 1
        number = f"{self._run}-{self._number}"
        body = {"metadata": {"name": f"kept-{number}"}, "data": {"n": number}}
        self._sent[number] = time.perf_counter()
        reply = await self._timed(
            self._delays.writes,
            "POST",
            lambda: self._writing.request("POST", self._base, json.dumps(body).encode()),
        )
        if reply is not None and reply.status == 201:
            self._acknowledged.append(number)
            self._kept.add(number)

    async def _read_back(self) -> None:
        """Count what was acknowledged and is not there."""
        reply = await self._reading.request("GET", self._base)
        found = {o.get("data", {}).get("n") for o in json.loads(reply.content())["items"]}
        self._delays.not_read_back = len(self._kept - found)
        self._delays.kept = len(self._kept)

    async def _timed(
        self, into: list[float], what: str, send: Callable[[], asyncio.Future[Reply]]
    ) -> Reply | None:
        began = time.perf_counter()
        try:
            reply = await send()
        except ConnectionError as error:
            self._delays.fail(f"{what} {error}"[:80])
            into.append(time.perf_counter() - began)
            return None
        except asyncio.CancelledError:
            self._delays.fail(f"{what} without answer")
            into.append(time.perf_counter() - began)
            raise
        took = time.perf_counter() - began
        into.append(took)
        if took > (_SLOW_GET if what == "GET" else _SLOW_WRITE):
            self._delays.slow.append((time.monotonic(), what, took))
        if reply.status not in (200, 201):
            self._delays.fail(f"{what} {reply.status}")
        return reply

    def _on_event(self, data: bytes) -> None:
        now = time.perf_counter()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            found = json.loads(line)["object"]
            version = int(found["metadata"]["resourceVersion"])
            if version <= self._last_version:
                self._delays.lost += 1
            self._last_version = version
            self._shown.setdefault(found.get("data", {}).get("n", "0"), now)


async def _measure(
    pipe: multiprocessing.connection.Connection, place: Place, room: Room, keeps: bool
) -> None:
    innocent = Innocent(place, room, keeps=keeps)
    try:
        await innocent.open()
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("")
    delays = await innocent.sample(pipe.poll)
    pipe.recv()
    pipe.send(delays)
    await innocent.close()


class InnocentProcess:
    """The process, as the one that measures sees it. It is forked per server, to inherit it."""

    def __init__(self, place: Place, room: Room, *, keeps: bool = False) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_one, args=(theirs, place, room, keeps), name="innocent", daemon=True
        )
        self._process.start()
        problem = self._pipe.recv()
        if problem:
            raise RuntimeError(f"the innocent tenant cannot begin: {problem}")

    def finish(self) -> Delays:
        self._pipe.send("stop")
        found: Delays = self._pipe.recv()
        self._process.join(5)
        return found

    def kill(self) -> None:
        self._process.kill()


def _one(
    pipe: multiprocessing.connection.Connection, place: Place, room: Room, keeps: bool
) -> None:
    with contextlib.suppress(PermissionError):
        os.nice(-5)
    gc.disable()
    asyncio.run(_measure(pipe, place, room, keeps))
