"""The attacker: a process that prepares an abusive request, waits for the word, and sends it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import yarl
from stalls_places import RBAC, Place, Room
from target import Target

JSON, YAML = "application/json", "application/yaml"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
SECONDS = 12.0
"""What an attack may take."""

Script = Callable[["Attacker"], AsyncIterator[None]]
"""Prepares up to its one `yield`; what follows is the attack."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A row of the table."""

    name: str
    script: Script
    has_peer: bool
    """Whether kube-apiserver has the feature, too."""
    is_hooked: bool = False
    """Whether the innocent tenant's writes go through its own webhook meanwhile."""


@dataclass(slots=True)
class Outcome:
    """What the attacker was answered."""

    statuses: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    example: str = ""
    problem: str = ""


class Made(NamedTuple):
    """An attack of a storm, and when it was made."""

    name: str
    began: float
    ended: float


class Attacker:
    """What scripts use."""

    def __init__(self, place: Place, rooms: list[Room]) -> None:
        self.place = place
        self.rooms = rooms
        self.room = rooms[0]
        self.outcome = Outcome()
        self._session: aiohttp.ClientSession | None = None

    @property
    def configmaps(self) -> str:
        return f"/api/v1/namespaces/{self.room.namespace}/configmaps"

    def target(self, room: Room | None = None) -> Target:
        """For clients of HTTP/2."""
        return self.place.target(room or self.room)

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self.place.client_context())
        self._session = aiohttp.ClientSession(connector=connector)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = JSON,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        room: Room | None = None,
        seconds: float = SECONDS,
    ) -> tuple[int, bytes]:
        """One request in the attacker's room; anonymous with the token ""."""
        room = room or self.room
        sent = {"Content-Type": content_type, "Accept": JSON, **(headers or {})}
        token = room.token if token is None else token
        if token:
            sent["Authorization"] = f"Bearer {token}"
        url = f"https://{self.place.host}:{self.place.port}{room.prefix}{path}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        assert self._session is not None
        limit = aiohttp.ClientTimeout(seconds)
        async with self._session.request(
            method,
            yarl.URL(url, encoded=True),
            data=None if data is None else io.BytesIO(data),
            headers=sent,
            timeout=limit,
        ) as reply:
            return reply.status, await reply.read()

    async def send(self, method: str, path: str, body: Any = None, *more: Any, **named: Any) -> int:
        """A request of the attack: its answer is part of the table."""
        began = time.perf_counter()
        answer = b""
        try:
            status, answer = await self.request(method, path, body, *more, **named)
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            status = 0
            self.note(type(error).__name__, time.perf_counter() - began)
        else:
            self.note(str(status), time.perf_counter() - began)
        if status >= 400 and not self.outcome.example:
            self.outcome.example = _message(answer)
        return status

    def note(self, status: str, seconds: float = 0.0) -> None:
        self.outcome.statuses[status] += 1
        self.outcome.longest = max(self.outcome.longest, seconds)

    async def setup(
        self, method: str, path: str, body: Any = None, *more: Any, **named: Any
    ) -> Any:
        """A request that prepares the attack and must be answered well."""
        for pause in (0.2, 0.5, 1, 2, 4, 0):
            status, answer = await self.request(method, path, body, *more, **named)
            if status != 429:
                break
            await asyncio.sleep(pause)
        if status >= 300 and status != 409:
            raise RuntimeError(f"{method} {path}: {status} {answer[:600]!r}")
        return json.loads(answer)

    async def give_limited_rights(self, rules: list[dict[str, Any]]) -> None:
        """The user `limited` may create roles, and what the rules say."""
        own = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["create"]}
        enter = {"nonResourceURLs": ["/"], "verbs": ["access"]}
        role = {"metadata": meta("limited"), "rules": [own, enter, *rules]}
        await self.setup("POST", f"/apis/{RBAC}/v1/clusterroles", role)
        binding = {
            "metadata": meta("limited"),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "limited"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "limited"}],
        }
        await self.setup("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)

    async def wait_for(self, check: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            found = await check()
            if found:
                return found
            if time.monotonic() > deadline:
                raise RuntimeError("what was prepared did not come")
            await asyncio.sleep(0.05)


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "labels": {"stalls": "1"}, **more}


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer).get("message", ""))[:120]
    except (ValueError, AttributeError):
        return repr(answer[:120])


class AttackerProcess:
    """The process, as the one that measures sees it."""

    def __init__(self, attack: Attack, place: Place, rooms: list[Room]) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_process, args=(theirs, attack, place, rooms), name="attacker"
        )
        self._process.start()

    def wait_until_prepared(self, seconds: float = 60.0) -> str:
        """What went wrong, "" if nothing did."""
        return str(self._pipe.recv()) if self._pipe.poll(seconds) else "not prepared in time"

    def attack(self) -> None:
        self._pipe.send("go")

    def outcome(self, seconds: float = SECONDS + 8) -> Outcome:
        found = Outcome(problem="no end")
        if self._pipe.poll(seconds):
            with contextlib.suppress(EOFError):
                found = self._pipe.recv()
        self.kill()
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


async def attack_until(
    place: Place, rooms: list[Room], pick: Callable[[], Attack], until: float
) -> list[Made]:
    """One attack after the other, whatever is answered."""
    made: list[Made] = []
    while time.monotonic() < until:
        attack = pick()
        attacker = Attacker(place, rooms)
        await attacker.open()
        script = attack.script(attacker)
        began, is_refused = time.monotonic(), False
        try:
            async with asyncio.timeout(SECONDS):
                await anext(script)
                await anext(script, None)
        except Exception:  # what the server refuses, or answers late, is its right
            is_refused = True
        finally:
            name = f"{attack.name} (refused)" if is_refused else attack.name
            made.append(Made(name, began, time.monotonic()))
            with contextlib.suppress(Exception):
                await attacker.close()
    return made


def _process(
    pipe: multiprocessing.connection.Connection, attack: Attack, place: Place, rooms: list[Room]
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.disable()  # asyncio has much to say about connections that the server breaks off
    os.nice(5)
    asyncio.run(_run(pipe, attack, place, rooms))


async def _run(
    pipe: multiprocessing.connection.Connection, attack: Attack, place: Place, rooms: list[Room]
) -> None:
    attacker = Attacker(place, rooms)
    await attacker.open()
    script = attack.script(attacker)
    try:
        await anext(script)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}"[:1000])
        return
    pipe.send("")
    pipe.recv()
    try:
        async with asyncio.timeout(SECONDS):
            await anext(script, None)
    except TimeoutError:
        attacker.note("still going")
    except Exception as error:
        attacker.outcome.problem = f"{type(error).__name__}: {error}"[:300]
    pipe.send(attacker.outcome)
    await attacker.close()
