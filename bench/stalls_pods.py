"""Attacks by way of clusters that run something: logs of their pods, and statuses that change all the time."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from aiohttp import web
from http2client import Connection
from stalls_answers import RECEIVED
from stalls_attacker import MERGE, Attack, Attacker, Script
from stalls_clusters import CLUSTERS, Answer, HostileCluster, bind, cluster_object, stream_answer

ATTACKS: list[Attack] = []
_ATTACK_SECONDS = 6.0
_LINES = (
    b"a line of a log that never ends, as an application that is out of order writes it\n" * 800
)


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(name, script, has_peer=False))


async def bind_kubernetes(a: Attacker) -> None:
    await bind(a, "kubernetes")

    async def is_served() -> bool:
        return (await a.request("GET", _pods(a)))[0] == 200

    await a.wait_for(is_served, 30)


def _pods(a: Attacker) -> str:
    return f"/api/v1/namespaces/{a.room.namespace}/pods"


# -- pods ------------------------------------------------------------------------------------------


def _pod(name: str, size: int = 0) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "any", "uid": f"u-{name}", "resourceVersion": "5"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | {"annotations": {"text": "x" * size}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    }


def _pods_of(log: Answer, items: int = 10, size: int = 0) -> Answer:
    """A cluster with any pod that it is asked for."""
    listed = json.dumps(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9"},
            "items": [_pod(f"p{n}", size) for n in range(items)],
        }
    ).encode()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        words = request.path.split("/")
        if "pods" not in words[5:6]:
            return None
        if words[-1] == "log":
            return await log(request)
        if words[-1] == "pods" and not request.query.get("watch"):
            return web.Response(body=listed, content_type="application/json")
        return web.json_response(_pod(words[-1])) if len(words) == 7 else None

    return answer


async def _endless_log(request: web.Request) -> web.StreamResponse:
    return await stream_answer(request, itertools.repeat(_LINES))


async def _many_small_lines(request: web.Request) -> web.StreamResponse:
    return await stream_answer(request, itertools.repeat(b"x\n"))


def _with_pods(answer: Answer, path: str, streams: int, *, is_read: bool = True) -> Script:
    """Ask for something of the pods on many streams, again and again."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        await bind_kubernetes(a)
        server = HostileCluster(answer)
        await a.setup("POST", CLUSTERS, cluster_object("c", server.kubeconfig()))
        opened = [await a.target().connect() for _ in range(4)]
        target = f"{a.room.prefix}{_pods(a)}{path}"
        until = time.perf_counter() + _ATTACK_SECONDS
        yield

        async def repeat(connection: Connection) -> None:
            on_data = (lambda _: None) if is_read else None
            while time.perf_counter() < until:
                try:
                    reply = await connection.request("GET", target, on_data=on_data)
                except ConnectionError:
                    a.note("reset")
                    return
                a.note(str(reply.status))
                if reply.status == 429:
                    await asyncio.sleep(0.1)
                elif is_read:
                    await asyncio.sleep(max(0.0, until - time.perf_counter()))

        try:
            async with asyncio.timeout(_ATTACK_SECONDS + 3):
                await asyncio.gather(*(repeat(opened[n % 4]) for n in range(streams)))
        finally:
            a.outcome.statuses[RECEIVED] = server.requests
            for connection in opened:
                connection.close()
            await asyncio.to_thread(server.close)

    return script


_add(
    "logs of pods that never end, 32 streams",
    _with_pods(_pods_of(_endless_log), "/p1/log?follow=1", 32),
)
_add(
    "logs of pods in pieces of two octets, 32 streams",
    _with_pods(_pods_of(_many_small_lines), "/p1/log?follow=1", 32),
)
_add(
    "lists of 2,000 pods of a cluster in a loop, 16 streams",
    _with_pods(_pods_of(_endless_log, 2_000, 2_000), "", 16, is_read=False),
)


async def _large_pods(a: Attacker) -> AsyncIterator[None]:
    """Many containers, which three quotas count."""
    await bind_kubernetes(a)
    quotas = f"/api/v1/namespaces/{a.room.namespace}/resourcequotas"
    asking = {"requests": {"cpu": "1m"}}
    containers = [{"name": f"c{n}", "image": "i", "resources": asking} for n in range(20_000)]
    large = {**_pod(""), "spec": {"containers": containers}}
    await a.setup("POST", _pods(a), {**large, "metadata": {"name": "p0"}})
    for n in range(3):
        hard = {"hard": {"requests.cpu": "1k", "pods": "100"}}
        await a.setup("POST", quotas, {"metadata": {"name": f"q{n}"}, "spec": hard})

    async def is_known() -> bool:
        found = await a.setup("GET", f"{quotas}/q2")
        return "requests.cpu" in (found.get("status") or {}).get("used", {})

    await a.wait_for(is_known)
    yield
    await a.send("POST", _pods(a), {**large, "metadata": {"name": "p1"}})
    await a.send("PATCH", f"{_pods(a)}/p1", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await a.send("DELETE", f"{_pods(a)}/p1")
    await asyncio.sleep(2)


_add("pods of 20,000 containers under three quotas", _large_pods)


async def _judged_pods(a: Attacker) -> AsyncIterator[None]:
    """LimitRanges and Pod Security look at each container."""
    await bind_kubernetes(a)
    namespace = f"/api/v1/namespaces/{a.room.namespace}"
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "warn")}
    await a.setup("PATCH", namespace, {"metadata": {"labels": labels}}, MERGE)
    limits = [
        {"type": "Container", "max": {f"example.com/r{n}": "9" for n in range(2_000)}},
        {"type": "Pod", "max": {"cpu": "100k"}},
    ]
    body = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    await a.setup("POST", f"{namespace}/limitranges", body)
    plain = [{"name": f"c{n}", "image": "i"} for n in range(20_000)]
    yield
    for name, count in (("large", 20_000), ("small", 500)):
        pod = {**_pod(""), "metadata": {"name": name}, "spec": {"containers": plain[:count]}}
        await a.send("POST", _pods(a), pod)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": plain}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{a.room.namespace}/deployments"
    await a.send("POST", path, {"metadata": {"name": "d"}, "spec": spec})


_add("pods of 20,000 containers, judged by limits and levels", _judged_pods)


async def _many_ports(a: Attacker) -> AsyncIterator[None]:
    await bind_kubernetes(a)
    path = f"/api/v1/namespaces/{a.room.namespace}/services"
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(50_000)]
    yield
    for name, spec in (
        ("plain", {"ports": ports[:20_000]}),
        ("all", {"type": "NodePort", "ports": ports}),
        ("many", {"type": "NodePort", "ports": ports[:2_600]}),
        ("families", {"ports": ports[:1], "ipFamilies": ["IPv4"] * 300_000}),
    ):
        await a.send("POST", path, {"metadata": {"name": name}, "spec": spec})
    await a.send("DELETE", f"{path}/many")


_add("services of 50,000 ports and 300,000 families", _many_ports)


# -- statuses --------------------------------------------------------------------------------------


class _FlappingCluster:
    """Keeps what syncers apply, and tells watches of a new status of each, again and again."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(100)

    async def answer(self, request: web.Request) -> web.StreamResponse | None:
        if request.method in ("PATCH", "POST", "PUT"):
            return web.json_response(self._keep(request.path, json.loads(await request.read())))
        if request.query.get("watch"):
            return await stream_answer(request, self._events(request.path), 0.001)
        if request.path in self._objects:
            return web.json_response(self._objects[request.path])
        return None

    def _keep(self, path: str, found: dict[str, Any]) -> dict[str, Any]:
        metadata = found.setdefault("metadata", {})
        metadata |= {"uid": f"u-{path}", "resourceVersion": str(next(self._numbers))}
        metadata.setdefault("name", path.rpartition("/")[2])
        self._objects[path] = found
        return found

    def _events(self, path: str) -> Iterator[bytes]:
        end = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
        kind = path.rpartition("/")[2]
        while True:
            found = [o for p, o in self._objects.items() if f"/{kind}/" in p]
            yield b"".join(self._event(one) for one in found[:50]) or b"\n"

    def _event(self, found: dict[str, Any]) -> bytes:
        number = next(self._numbers)
        metadata = {**found["metadata"], "resourceVersion": str(number), "generation": 1}
        status = {"replicas": number, "readyReplicas": number, "observedGeneration": 1}
        shown = {**found, "metadata": metadata, "status": status}
        return json.dumps({"type": "MODIFIED", "object": shown}).encode() + b"\n"


def _flapping(workloads: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        await bind_kubernetes(a)
        server = HostileCluster(_FlappingCluster().answer)
        await a.setup("POST", CLUSTERS, cluster_object("c", server.kubeconfig()))
        path = f"/apis/apps/v1/namespaces/{a.room.namespace}/deployments"
        yield
        try:
            for n in range(workloads):
                await a.send("POST", path, _deployment(f"d{n}"))
            await asyncio.sleep(_ATTACK_SECONDS)
            a.outcome.statuses[RECEIVED] = server.requests
        finally:
            await asyncio.to_thread(server.close)

    return script


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"workloads.kcp.dev/cluster": "c"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


_add("20 workloads whose statuses change all the time", _flapping(20))
