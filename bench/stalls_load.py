"""Attacks by number: connections, streams, lists, watches, objects; and floods below HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from multiprocessing.synchronize import Event
from typing import Any

import floods
from http2client import Connection
from stalls_attacker import Attack, Attacker, Script
from stalls_places import Room

ATTACKS: list[Attack] = []
_FLOOD_SECONDS = 6.0


def _add(name: str, script: Script, *, has_peer: bool = True) -> None:
    ATTACKS.append(Attack(name, script, has_peer))


async def fill(a: Attacker, room: Room, count: int, *, size: int = 1400) -> None:
    """So many ConfigMaps in a room."""
    path = _configmaps(room)
    connections = [await a.target(room).connect() for _ in range(4)]
    numbers = itertools.count()

    async def work(connection: Connection) -> None:
        while (n := next(numbers)) < count:
            body = {"metadata": {"name": f"m{n}"}, "data": {"text": "x" * size}}
            reply = await connection.request("POST", path, json.dumps(body).encode())
            if reply.status == 429:
                await asyncio.sleep(0.1)
            elif reply.status not in (201, 409):
                raise RuntimeError(f"{reply.status} {reply.content()[:300]!r}")

    await asyncio.gather(*(work(c) for c in connections for _ in range(8)))
    for connection in connections:
        connection.close()


def _wire(name: str, *, objects: int = 0) -> Script:
    """One of the floods, by the attacker or by nobody in particular."""
    flood = floods.ATTACKS[name]

    async def script(a: Attacker) -> AsyncIterator[None]:
        if objects:
            await fill(a, a.room, objects)
        arguments: dict[str, Any] = {}
        if name in floods.WITH_PATH:
            arguments["headers"] = [("authorization", f"Bearer {a.room.token}")]
            arguments["path"] = a.room.prefix + a.configmaps
        yield
        context = a.place.client_context()
        await flood(a.place.host, a.place.port, context, _FLOOD_SECONDS, **arguments)

    return script


def _closed_windows(streams: int) -> Script:
    """Paged lists whose answers nobody takes, in all rooms of the attacker."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        for room in a.rooms:
            await fill(a, room, 2_000)
        headers = [("authorization", f"Bearer {a.room.token}")]
        context = a.place.client_context()

        async def wait(socket: floods.Socket, _ids: Any) -> None:
            await asyncio.wait_for(socket.closed.wait(), _FLOOD_SECONDS)

        yield
        where = (a.place.host, a.place.port, context, _FLOOD_SECONDS)
        each = streams // len(a.rooms)
        async with asyncio.timeout(_FLOOD_SECONDS + 2):
            await asyncio.gather(
                *(
                    floods._windows(where, f"{_configmaps(room)}?limit=500", headers, wait, 1, each)
                    for room in a.rooms
                )
            )

    return script


def many(
    work: Callable[[Connection, Room], Awaitable[int]],
    *,
    connections: int = 8,
    streams: int = 8,
    objects: int = 0,
    rooms: int = 1,
    seconds: float = _FLOOD_SECONDS,
) -> Script:
    """The same request again and again, on so many streams at a time."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        for room in a.rooms[:rooms]:
            if objects:
                await fill(a, room, objects)
        opened = [await a.target(a.rooms[n % rooms]).connect() for n in range(connections)]
        yield
        until = time.perf_counter() + seconds

        async def repeat(place: int) -> None:
            connection = opened[place % connections]
            while time.perf_counter() < until:
                began = time.perf_counter()
                try:
                    status = await work(connection, a.rooms[place % connections % rooms])
                except ConnectionError:
                    a.note("reset", time.perf_counter() - began)
                    return
                a.note(str(status), time.perf_counter() - began)
                if status == 429:
                    await asyncio.sleep(0.05)

        async with asyncio.timeout(seconds + 4):
            await asyncio.gather(*(repeat(n) for n in range(connections * streams)))

    return script


_NUMBERS = itertools.count()
_DOCUMENTS = ("/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/apis")


def _configmaps(room: Room) -> str:
    return f"{room.prefix}/api/v1/namespaces/{room.namespace}/configmaps"


async def _get_one(connection: Connection, room: Room) -> int:
    return (await connection.request("GET", f"{_configmaps(room)}/m1")).status


async def _get_missing(connection: Connection, room: Room) -> int:
    path = f"{_configmaps(room)}/none{next(_NUMBERS)}"
    return (await connection.request("GET", path)).status


async def _create_one(connection: Connection, room: Room) -> int:
    body = json.dumps({"metadata": {"name": f"n{next(_NUMBERS)}"}, "data": {"a": "b" * 1000}})
    return (await connection.request("POST", _configmaps(room), body.encode())).status


async def _list_all(connection: Connection, room: Room) -> int:
    return (await connection.request("GET", _configmaps(room))).status


async def _list_page(connection: Connection, room: Room) -> int:
    return (await connection.request("GET", f"{_configmaps(room)}?limit=500")).status


async def _list_selected(connection: Connection, room: Room) -> int:
    path = f"{_configmaps(room)}?labelSelector=none%3D{next(_NUMBERS)}&limit=10"
    return (await connection.request("GET", path)).status


async def _openapi(connection: Connection, room: Room) -> int:
    path = _DOCUMENTS[next(_NUMBERS) % len(_DOCUMENTS)]
    return (await connection.request("GET", room.prefix + path)).status


_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def _table() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await fill(a, a.room, 10_000)
        yield
        for _ in range(3):
            await asyncio.gather(
                *(a.send("GET", a.configmaps, headers={"Accept": _TABLE}) for _ in range(4))
            )

    return script


def _watches(count: int, per_connection: int = 250) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        target = a.target()
        opened = [await target.connect() for _ in range(count // per_connection)]
        yield

        async def open_watch(connection: Connection) -> None:
            path = f"{a.room.prefix}{a.configmaps}?watch=1"
            try:
                reply = await connection.request("GET", path, on_data=lambda _: None)
            except ConnectionError:
                a.note("reset")
            else:
                a.note(str(reply.status))

        async with asyncio.timeout(8):
            await asyncio.gather(
                *(open_watch(c) for c in opened for _ in range(per_connection)),
                return_exceptions=True,
            )
        for n in range(10):
            await a.send("POST", a.configmaps, {"metadata": {"name": f"e{n}"}})

    return script


def _watches_of_the_past(count: int) -> Script:
    """Each begins before 200 changes of 1 MB, which are read from the disk."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"{a.configmaps}/changing"
        made = await a.setup("POST", a.configmaps, {"metadata": {"name": "changing"}})
        version = made["metadata"]["resourceVersion"]
        for n in range(200):
            await a.setup(
                "PUT", path, {"metadata": {"name": "changing"}, "data": {"n": f"{n:x<1000000}"}}
            )
        opened = [await a.target().connect() for _ in range(8)]
        yield
        watch = f"{a.room.prefix}{a.configmaps}?watch=1&timeoutSeconds=8&resourceVersion={version}"

        async def follow(connection: Connection) -> None:
            try:
                reply = await connection.request("GET", watch, on_data=lambda _: None)
                a.note(str(reply.status))
            except ConnectionError:
                a.note("reset")

        async with asyncio.timeout(10):
            await asyncio.gather(
                *(follow(c) for c in opened for _ in range(count // len(opened))),
                return_exceptions=True,
            )

    return script


def _connections_ended(count: int, handshake: bool) -> Script:
    """Connections that are all closed in the same moment, twice."""

    def hold(host: str, port: int, context: ssl.SSLContext, ready: Event) -> None:
        opened: list[socket.socket] = []
        for _ in range(count):
            each = socket.create_connection((host, port))
            opened.append(context.wrap_socket(each, server_hostname=host) if handshake else each)
        ready.set()
        time.sleep(60)

    async def script(a: Attacker) -> AsyncIterator[None]:
        forked = multiprocessing.get_context("fork")
        place = a.place
        yield
        for _ in range(2):
            ready = forked.Event()
            where = (place.host, place.port, place.client_context(), ready)
            process = forked.Process(target=hold, args=where)
            process.start()
            await asyncio.to_thread(ready.wait, 30)
            await asyncio.sleep(0.5)
            process.kill()
            await asyncio.sleep(1)

    return script


def _delete_collection(count: int, accept: str = "application/json") -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await fill(a, a.room, count, size=100)
        yield
        await a.send("DELETE", a.configmaps, headers={"Accept": accept})

    return script


def _big_updates() -> Script:
    text = "x" * 1_000_000

    async def script(a: Attacker) -> AsyncIterator[None]:
        bodies = []
        for n in range(64):
            made = {"metadata": {"name": f"big{n}"}, "data": {"text": "a"}}
            await a.setup("POST", a.configmaps, made)
            bodies.append(json.dumps({**made, "data": {"text": text}}).encode())
        yield
        until = time.perf_counter() + _FLOOD_SECONDS

        async def repeat(n: int) -> None:
            while time.perf_counter() < until:
                if await a.send("PUT", f"{a.configmaps}/big{n}", bodies[n]) == 429:
                    await asyncio.sleep(0.1)

        await asyncio.gather(*(repeat(n) for n in range(64)))

    return script


def _quota(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "3000"}}}
        path = f"/api/v1/namespaces/{a.room.namespace}/resourcequotas"
        await a.setup("POST", path, quota)
        yield

        async def create(n: int) -> None:
            await a.send("POST", a.configmaps, {"metadata": {"name": f"q{n}"}})

        for start in range(0, count, 250):
            await asyncio.gather(*(create(n) for n in range(start, start + 250)))

    return script


def _namespaces(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        names = [f"gone-{a.room.prefix[-3:].strip(':/')}-{n}" for n in range(count)]
        for start in range(0, count, 50):
            await asyncio.gather(
                *(
                    a.setup("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
                    for name in names[start : start + 50]
                )
            )
        yield
        for start in range(0, count, 100):
            await asyncio.gather(
                *(
                    a.send("DELETE", f"/api/v1/namespaces/{name}")
                    for name in names[start : start + 100]
                )
            )

    return script


for _name, _peer in (
    ("rapid_reset", True), ("continuation_flood", True), ("settings_flood", True),
    ("ping_flood", True), ("window_update_flood", True), ("empty_data_flood", True),
    ("tiny_data_flood", True), ("header_bomb", True), ("table_bomb", True), ("huffman_bomb", True),
    ("small_headers", True), ("pipelining", True), ("tiny_chunks", True), ("slow_bodies", True),
    ("tiny_records", True), ("handshakes", True), ("half_handshakes", True), ("connects", True),
    ("websocket_flood", False),
):  # fmt: skip
    _add(f"flood: {_name.replace('_', ' ')}", _wire(_name), has_peer=_peer)
_add("100 slow readers of a list of 17 MB", _wire("slow_readers", objects=10_000))
_add("256 paged lists with closed windows in four rooms", _closed_windows(256))
_add("800 lists of 17 MB with closed windows", _wire("zero_windows", objects=10_000))
_add("800 lists of 17 MB, windows of one octet", _wire("tiny_windows", objects=10_000))
_add("GET flood, 256 streams", many(_get_one, streams=32, objects=2))
_add("GET flood for what is missing", many(_get_missing, streams=32))
_add("create flood, 256 streams", many(_create_one, streams=32))
_add("lists of 10,000 in a loop, 64 streams", many(_list_all, objects=10_000))
_add(
    "lists of 10,000 in four rooms, 256 streams",
    many(_list_all, streams=32, objects=5_000, rooms=4),
)
_add("pages of 500 in a loop, 64 streams", many(_list_page, objects=5_000))
_add("selectors that match nothing in 10,000", many(_list_selected, objects=10_000))
_add("discovery and OpenAPI in a loop, 64 streams", many(_openapi))
_add("lists of 10,000 as Table", _table())
_add("10,000 watches", _watches(10_000))
_add("1,900 connections closed at once", _connections_ended(1_900, handshake=True))
_add("400 connections closed before a handshake", _connections_ended(400, handshake=False))
_add("64 watches from before 200 changes of 1 MB", _watches_of_the_past(64))
_add("deletion of 10,000 objects at once", _delete_collection(10_000))
_add("deletion of 10,000 objects, as Table", _delete_collection(10_000, _TABLE))
_add("deletion of 10,000 objects, as YAML", _delete_collection(10_000, "application/yaml"))
_add("updates of 1 MB, 64 at a time", _big_updates())
_add("5,000 creates under a quota", _quota(5_000))
_add("1,000 namespaces deleted at once", _namespaces(1_000))
