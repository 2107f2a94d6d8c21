"""Attacks by way of multi-cluster: registered clusters that are hostile, and their workloads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from aiohttp import web
from stalls_answers import RECEIVED
from stalls_attacker import JSON, Attack, Attacker, Script, meta

from pykcp.testing.https import HTTPSServer

ATTACKS: list[Attack] = []
_WORKLOAD = "/apis/workload.kcp.dev/v1alpha1"
CLUSTERS = f"{_WORKLOAD}/clusters"
_TYPES = "/apis/apiresource.kcp.dev/v1alpha1"
_ATTACK_SECONDS = 5.0
_CHUNK = 1 << 16


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(name, script, has_peer=False))


# -- a cluster that answers as an attack says ------------------------------------------------------

Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""None: as an ordinary cluster would."""


class HostileCluster(HTTPSServer):
    """Is ready and has the usual discovery, unless its attack answers otherwise."""

    def __init__(self, answer: Answer) -> None:
        self._hostile = answer
        self.requests = 0
        super().__init__()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        with contextlib.suppress(ConnectionError):
            found = await self._hostile(request)
            return found if found is not None else _usual(request)
        return web.Response(status=500)

    def kubeconfig(self, padding: str = "") -> str:
        authority = base64.b64encode(self.ca.encode()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "hostile"}}],
        }
        return json.dumps(config)[:-1] + padding + "}"


_VERBS = ["list", "watch", "patch", "get", "create", "delete", "update"]
_RESOURCES = {
    "/api/v1": ("v1", ["configmaps", "secrets", "services", "pods"]),
    "/apis/apps/v1": ("apps/v1", ["deployments"]),
    "/apis/example.com/v1": ("example.com/v1", ["widgets"]),
}
_KINDS = {
    "configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "pods": "Pod",
    "deployments": "Deployment", "widgets": "Widget",
}  # fmt: skip


def _resource(name: str) -> dict[str, Any]:
    kind = _KINDS[name]
    return {
        "name": name,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": True,
        "verbs": _VERBS,
    }


def _usual(request: web.Request) -> web.Response:
    path = request.path
    if path == "/readyz":
        return web.Response(text="ok")
    if path == "/version":
        return web.json_response({"gitVersion": "v1.36.0"})
    if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
        found = {"kind": "Namespace", "apiVersion": "v1"}
        return web.json_response({**found, "metadata": {"name": "kube-system", "uid": "u1"}})
    if path in ("/apis/apps", "/apis/example.com"):
        version = {"groupVersion": f"{path[6:]}/v1", "version": "v1"}
        return web.json_response({"kind": "APIGroup", "preferredVersion": version})
    if path == "/apis":
        groups = [
            {"name": group, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
            for group in ("apps", "example.com")
        ]
        return web.json_response({"kind": "APIGroupList", "groups": groups})
    if path in _RESOURCES:
        group, names = _RESOURCES[path]
        listed = [_resource(name) for name in names]
        return web.json_response(
            {"kind": "APIResourceList", "groupVersion": group, "resources": listed}
        )
    if path == "/openapi/v3":
        return web.json_response({"paths": {}})
    if path == "/openapi/v2":
        return web.json_response({"swagger": "2.0", "definitions": {}})
    if request.query.get("watch"):
        status = {"kind": "Status", "code": 400, "reason": "BadRequest", "message": "no watches"}
        return web.json_response(status, status=400)
    empty = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
    return web.json_response(empty)


async def stream_answer(
    request: web.Request, chunks: Iterator[bytes], pause: float = 0.0
) -> web.Response:
    answer = web.StreamResponse(headers={"Content-Type": JSON})
    await answer.prepare(request)
    for chunk in chunks:
        if request.transport is None or request.transport.is_closing():
            break
        await answer.write(chunk)
        await asyncio.sleep(pause)
    await answer.write_eof()
    return answer  # type: ignore[return-value]


async def bind(a: Attacker, export: str = "workload.kcp.dev") -> None:
    """Bind an export of `root`."""
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": "root", "name": export}}},
    }
    await a.setup("POST", "/apis/apis.kcp.io/v1alpha2/apibindings", binding)

    async def is_bound() -> bool:
        path = f"/apis/apis.kcp.io/v1alpha2/apibindings/{export}"
        found = json.loads((await a.request("GET", path))[1])
        return bool(found.get("status", {}).get("phase") == "Bound")

    await a.wait_for(is_bound, 30)


def cluster_object(name: str, kubeconfig: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"kubeconfig": kubeconfig, "mode": "Push", **spec},
    }


def _hostile(answer: Answer, *, clusters: int = 4, **spec: Any) -> Script:
    """Several Clusters that lead to one server."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        server = HostileCluster(answer)
        yield
        try:
            for n in range(clusters):
                body = cluster_object(f"c{n}", server.kubeconfig(), **spec)
                await a.send("POST", CLUSTERS, body)
            await asyncio.sleep(_ATTACK_SECONDS)
            a.outcome.statuses[RECEIVED] = server.requests
        finally:
            await asyncio.to_thread(server.close)

    return script


# -- endless and large answers ---------------------------------------------------------------------


def _but(*paths: str) -> Callable[[Callable[[web.Request], Iterator[bytes]]], Answer]:
    """Answer some paths with a stream; those that end with "*" are prefixes."""

    def decorate(chunks: Callable[[web.Request], Iterator[bytes]]) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse | None:
            for path in paths:
                if request.path == path or (path[-1] == "*" and request.path.startswith(path[:-1])):
                    return await stream_answer(request, chunks(request))
            return None

        return answer

    return decorate


def _of_size(size: int, head: bytes, item: bytes, tail: bytes) -> Iterator[bytes]:
    """A document with items until it is so large."""
    yield head
    each = item * max(1, _CHUNK // len(item))
    for _ in range(size // len(each)):
        yield each
    yield tail


_LIST = b'{"kind":"L","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
_SIZE = 100 << 20


@_but("/readyz", "/version", "/apis", "/api*")
def _endless(_request: web.Request) -> Iterator[bytes]:
    return itertools.chain((b'{"kind":"',), itertools.repeat(b"x" * _CHUNK))


@_but("/apis")
def _large_discovery(_request: web.Request) -> Iterator[bytes]:
    return _of_size(_SIZE, b'{"groups":[', b'{"name":"g","versions":[]},', b"{}]}")


@_but("/openapi/v2", "/openapi/v3")
def _large_openapi(request: web.Request) -> Iterator[bytes]:
    if request.path == "/openapi/v3":
        return iter((b'{"paths":{}}',))
    return _of_size(_SIZE, b'{"definitions":{"a":{"enum":[', b"[[],[]],", b"0]}}}")


@_but("/openapi/v2")
def _dense_openapi(_request: web.Request) -> Iterator[bytes]:
    return _of_size(7 << 20, b'{"definitions":{"a":{"enum":[', b"[[],[]],", b"0]}}}")


def _crd(number: int, size: int) -> bytes:
    properties = {f"p{n}": {"type": "string"} for n in range(size // 28)}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"t{number}", "kind": f"T{number}"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    return json.dumps({"metadata": {"name": f"t{number}.example.com"}, "spec": spec}).encode()


def _large_crds() -> Answer:
    crds = [_crd(n, 1 << 19) for n in range(20)]
    names = [_resource("widgets") | {"name": f"t{n}", "kind": f"T{n}"} for n in range(20)]

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/customresourcedefinitions") and not request.query.get("watch"):
            start, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
            end = start + limit
            head = _LIST.replace(b'"1"', b'"1","continue":"%d"' % end) if end < 20 else _LIST
            body = head + b",".join(crds[start:end]) + b"]}"
            return web.Response(body=body, content_type=JSON)
        if request.path == "/apis/example.com/v1":
            return web.json_response({"resources": names})
        return None

    return answer


_ITEM = b'{"metadata":{"name":"x","uid":"u","resourceVersion":"1"}},'


async def _endless_pages(request: web.Request) -> web.StreamResponse | None:
    if request.path.count("/") < 3 or request.query.get("watch") or "/namespaces/" in request.path:
        return None
    if not request.path.startswith(("/api/v1/", "/apis/apps/v1/", "/apis/apiextensions")):
        return None
    body = _LIST.replace(b'"1"', b'"1","continue":"more"', 1) + _ITEM * 5_000 + _ITEM[:-1] + b"]}"
    return web.Response(body=body, content_type=JSON)


async def _trickling(request: web.Request) -> web.StreamResponse | None:
    return await stream_answer(request, itertools.repeat(b" "), 0.2)


# -- watches ---------------------------------------------------------------------------------------


def _event(number: int, label: str) -> bytes:
    metadata = {
        "name": f"o{number % 50_000}",
        "namespace": "default",
        "uid": f"u{number}",
        "resourceVersion": str(number + 10),
        "labels": {"internal.workload.kcp.dev/cluster": label},
    }
    found = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "status": {"n": number}}
    return json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n"


_EVENTS = b"".join(_event(n, "x") for n in range(2_000))


async def _watch_flood(request: web.Request) -> web.StreamResponse | None:
    if not request.query.get("watch"):
        return None
    end = {
        "metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    }
    first = json.dumps({"type": "BOOKMARK", "object": {"kind": "X", **end}}).encode() + b"\n"
    return await stream_answer(request, itertools.chain((first,), itertools.repeat(_EVENTS)))


async def _endless_line(request: web.Request) -> web.StreamResponse | None:
    if not request.query.get("watch"):
        return None
    return await stream_answer(request, itertools.repeat(b"x" * _CHUNK))


async def _usual_cluster(_request: web.Request) -> None:
    return None


_add("cluster whose answers never end", _hostile(_endless))
_add("cluster with discovery of 100 MB", _hostile(_large_discovery))
_add(
    "cluster with OpenAPI of 100 MB",
    _hostile(_large_openapi, syncResources=["widgets.example.com"]),
)
_add(
    "cluster with OpenAPI of 7 MB", _hostile(_dense_openapi, syncResources=["widgets.example.com"])
)
_add(
    "cluster with 20 CRDs of 500 KB",
    _hostile(_large_crds(), clusters=2, syncResources=["*.example.com"]),
)
_add("cluster with endless pages", _hostile(_endless_pages))
_add("cluster that trickles its answers", _hostile(_trickling, clusters=30))
_add("cluster that floods watches", _hostile(_watch_flood))
_add("cluster with an endless line in watches", _hostile(_endless_line))
_add("200 clusters in one workspace", _hostile(_usual_cluster, clusters=200))


# -- what tenants write ----------------------------------------------------------------------------


def _large_kubeconfigs() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        server = HostileCluster(_usual_cluster)
        padding = ',"x":[' + "{a: b}, " * 7_000 + "{}]"
        yield
        try:
            for n in range(8):
                body = cluster_object(f"c{n}", server.kubeconfig(padding))
                await a.send("POST", CLUSTERS, body)
            await asyncio.sleep(2)
        finally:
            await asyncio.to_thread(server.close)

    return script


def _placed(terms: int, workloads: int) -> Script:
    """A Placement of many terms, and workloads that it selects."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        server = HostileCluster(_usual_cluster)
        for n in range(3):
            body = cluster_object(f"c{n}", server.kubeconfig())
            await a.setup("POST", CLUSTERS, body)
        selectors = [
            {"labelSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]}}
            for n in range(terms)
        ]
        preferred = [
            {"weight": 1 + n % 99, "selector": {"labelSelector": {"matchLabels": {f"k{n}": "v"}}}}
            for n in range(terms)
        ]
        placement = {
            "apiVersion": "workload.kcp.dev/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": "wide", "namespace": a.room.namespace},
            "spec": {"resourceSelectors": selectors, "clusterAffinity": {"preferred": preferred}},
        }
        yield
        try:
            path = f"{_WORKLOAD}/namespaces/{a.room.namespace}/placements"
            await a.send("POST", path, placement)
            for start in range(0, workloads, 50):
                await asyncio.gather(
                    *(
                        a.send("POST", a.configmaps, {"metadata": {"name": f"w{n}"}})
                        for n in range(start, start + 50)
                    )
                )
            await asyncio.sleep(2)
        finally:
            await asyncio.to_thread(server.close)

    return script


def _assigned(count: int) -> Script:
    """So many objects that are labelled for one cluster."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        server = HostileCluster(_usual_cluster)
        await a.setup("POST", CLUSTERS, cluster_object("c", server.kubeconfig()))
        labels = {"workloads.kcp.dev/cluster": "c"}
        yield
        try:

            async def create(start: int) -> None:
                for n in range(start, count, 32):
                    body = {"metadata": {"name": f"w{n}", "labels": labels}}
                    if await a.send("POST", a.configmaps, body) == 429:
                        await asyncio.sleep(0.1)

            async with asyncio.timeout(_ATTACK_SECONDS):
                await asyncio.gather(*(create(n) for n in range(32)))
        except TimeoutError:
            a.note("still going")
        finally:
            await asyncio.to_thread(server.close)

    return script


def _negotiated(properties: int) -> Script:
    """Two imports of one type, each with a large schema of its own."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await bind(a)
        server = HostileCluster(_usual_cluster)
        await a.setup("POST", CLUSTERS, cluster_object("c", server.kubeconfig()))
        bodies = []
        for n in range(2):
            fields = {f"p{m}": {"type": "string", "maxLength": 5 + n} for m in range(properties)}
            schema = {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": fields}},
            }
            spec = {
                "location": f"d{n}",
                "groupVersion": {"group": "example.com", "version": "v1"},
                "plural": "gadgets",
                "singular": "gadget",
                "kind": "Gadget",
                "listKind": "GadgetList",
                "scope": "Namespaced",
                "schemaUpdateStrategy": "UpdateUnpublished",
                "openAPIV3Schema": schema,
            }
            made = {
                "apiVersion": "apiresource.kcp.dev/v1alpha1",
                "kind": "APIResourceImport",
                "metadata": meta(f"gadgets.d{n}.v1.example.com"),
                "spec": spec,
            }
            bodies.append(json.dumps(made).encode())
        yield
        try:
            for body in bodies:
                await a.send("POST", f"{_TYPES}/apiresourceimports", body)
            await asyncio.sleep(4)
        finally:
            await asyncio.to_thread(server.close)

    return script


_add("kubeconfigs of 60 KB", _large_kubeconfigs())
_add("a Placement of 5,000 terms and 500 workloads", _placed(5_000, 500))
_add("10,000 objects that are assigned to one cluster", _assigned(10_000))
_add("two schemas of 20,000 properties negotiated", _negotiated(20_000))
