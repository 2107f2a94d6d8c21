"""Attacks on what is served beside the API: usage, access, copies, readable objects, the console."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from http2client import Connection
from stalls_attacker import Attack, Attacker, Script, meta
from stalls_load import fill, many
from stalls_places import RBAC, Room

ATTACKS: list[Attack] = []
_NUMBERS = itertools.count()
_REVIEWS = "/apis/access.pykcp.dev/v1alpha1"


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(name, script, has_peer=False))


def _service(name: str, room: Room) -> str:
    return f"/services/{name}{room.prefix}"


# -- usage -----------------------------------------------------------------------------------------


async def _usage(connection: Connection, room: Room) -> int:
    path = f"{_service('usage', room)}/apis/usage.pykcp.dev/v1alpha1/resourceusages"
    return (await connection.request("GET", path)).status


def _usage_of_large(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        text = "x" * 1_000_000
        for n in range(count):
            await a.setup("POST", a.configmaps, {"metadata": meta(f"l{n}"), "data": {"t": text}})
        rest = many(_usage)(a)
        await anext(rest)
        yield
        await anext(rest, None)

    return script


_add("usage of 10,000 objects in a loop, 64 streams", many(_usage, objects=10_000))
_add("usage of 60 objects of 1 MB in a loop, 64 streams", _usage_of_large(60))


# -- access ----------------------------------------------------------------------------------------


def _binding(number: int, role: str) -> dict[str, Any]:
    return {
        "metadata": meta(f"b{number}"),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "someone"}],
    }


def _review(kind: str, user: str = "") -> tuple[str, dict[str, Any]]:
    spec: dict[str, Any] = {"resourceAttributes": {"verb": "get", "resource": "secrets"}}
    if user:
        spec["user"] = user
    plural = f"{kind.lower()}s"
    return plural, {"apiVersion": "access.pykcp.dev/v1alpha1", "kind": kind, "spec": spec}


def _explained(kind: str, user: str, rules: int, bindings: int) -> Script:
    """Many bindings of one role with many rules, none of which allows what is asked."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        one = {"apiGroups": [""], "verbs": ["list"]}
        role = {
            "metadata": meta("wide"),
            "rules": [{**one, "resources": [f"r{n}"]} for n in range(rules)],
        }
        await a.setup("POST", f"/apis/{RBAC}/v1/clusterroles", role)
        path = f"/apis/{RBAC}/v1/clusterrolebindings"
        for start in range(0, bindings, 50):
            await asyncio.gather(
                *(a.setup("POST", path, _binding(n, "wide")) for n in range(start, start + 50))
            )
        plural, body = _review(kind, user)
        target = f"{_service('access', a.room)}{_REVIEWS}/{plural}"
        outside = Room("", a.room.namespace, a.room.user)
        yield
        for _ in range(3):
            await asyncio.gather(*(a.send("POST", target, body, room=outside) for _ in range(8)))

    return script


_add(
    "explanations with 1,000 bindings of 10,000 rules",
    _explained("AccessExplanation", "someone", 10_000, 1_000),
)
_add(
    "who-can with 1,000 bindings of 10,000 rules",
    _explained("ResourceAccessReview", "", 10_000, 1_000),
)


# -- copies ----------------------------------------------------------------------------------------


_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"


async def make_child(a: Attacker, name: str) -> Room:
    """A workspace in the attacker's room: rooms themselves can be in `root` only."""
    kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
    await a.setup("POST", _WORKSPACES, {**kind, "metadata": {"name": name}})
    child = Room(f"{a.room.prefix}:{name}", a.room.namespace, a.room.user)

    async def is_ready() -> bool:
        path = f"/api/v1/namespaces/{child.namespace}/configmaps"
        return (await a.request("GET", path, room=child))[0] == 200

    await a.wait_for(is_ready, 20)
    return child


def _clone(objects: int, *, size: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        child = await make_child(a, "source")
        await fill(a, child, objects, size=size)
        target = f"{_service('copies', a.room)}/clone"
        source = child.prefix.removeprefix("/clusters/")
        outside = Room("", a.room.namespace, a.room.user)
        yield
        for n in range(3):
            body = {"source": source, "name": f"copy{n}"}
            await a.send("POST", target, body, room=outside)

    return script


async def _rows(connection: Connection, room: Room) -> int:
    path = f"{_service('copies', room)}/rows?at=0&after="
    return (await connection.request("GET", path)).status


async def _tree(connection: Connection, room: Room) -> int:
    return (await connection.request("GET", f"{_service('copies', room)}/tree")).status


def _malformed_clones() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        bodies = (
            b'{"source":[' + b"[]," * 900_000 + b"[]]}",
            b"[" * 500_000,
            b'{"source":"' + b"a:" * 1_000_000 + b'","name":"x"}',
        )
        outside = Room("", a.room.namespace, a.room.user)
        yield
        for body in bodies:
            for path in ("clone", "begin", "add"):
                await a.send("POST", f"{_service('copies', a.room)}/{path}", body, room=outside)

    return script


_add("a workspace of 10,000 objects cloned three times", _clone(10_000, size=1400))
_add("a workspace of 36 MB cloned three times", _clone(2_400, size=15_000))
_add("trees of a workspace in a loop, 64 streams", many(_tree, objects=2_000))
_add("rows of a workspace of 10,000 in a loop, 64 streams", many(_rows, objects=10_000))
_add("clones with bodies of 2 MB", _malformed_clones())


# -- all that a user may read, and what needs no credentials ---------------------------------------


async def _readable(connection: Connection, room: Room) -> int:
    return (
        await connection.request("GET", "/services/readable/clusters/*/api/v1/configmaps")
    ).status


def readable_watches(service: str, count: int) -> Script:
    """Watches over all that the attacker may read, and 100 events for each."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        opened = [await a.target().connect() for _ in range(count // 50)]
        path = f"{service}/readable/clusters/*/api/v1/configmaps?watch=1"
        yield

        async def follow(connection: Connection) -> None:
            try:
                reply = await connection.request("GET", path, on_data=lambda _: None)
                a.note(str(reply.status))
            except ConnectionError:
                a.note("reset")

        async with asyncio.timeout(8):
            await asyncio.gather(
                *(follow(c) for c in opened for _ in range(50)), return_exceptions=True
            )
        for n in range(100):
            await a.send("POST", a.configmaps, {"metadata": {"name": f"e{n}"}})

    return script


async def _page(connection: Connection, room: Room) -> int:
    path = ("/console/", "/console/api/config", "/console/none", "/console/api/issuer")
    return (await connection.request("GET", path[next(_NUMBERS) % len(path)])).status


def _console_tokens() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        body = json.dumps({"code": "x" * 2_000_000, "verifier": "v", "redirectURI": "r"}).encode()
        nested = b'{"code":' + b"[" * 1_000_000
        outside = Room("", a.room.namespace, a.room.user)
        yield
        for sent in (body, nested, body, nested):
            await asyncio.gather(
                *(
                    a.send("POST", "/console/api/token", sent, token="", room=outside)
                    for _ in range(8)
                )
            )

    return script


async def _debug(connection: Connection, room: Room) -> int:
    path = ("/debug/slow-requests", "/debug/flow", "/debug/certificates", "/debug/tasks")
    return (await connection.request("GET", path[next(_NUMBERS) % len(path)])).status


_add("readable lists of 10,000 in a loop, 64 streams", many(_readable, objects=10_000))
_add("readable watches, 1,000 of them", readable_watches("/services", 1_000))
_add("console in a loop, 256 streams", many(_page, streams=32))
_add("sign-in of the console with bodies of 2 MB", _console_tokens())
_add("pages of /debug in a loop, 64 streams", many(_debug))
