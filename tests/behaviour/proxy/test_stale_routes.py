"""A route that is out of date costs one more request, and never gives a wrong answer."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from aiohttp import web

from pykcp.testing.client import eventually
from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles
from pykcp.testing.https import HTTPSServer, Received

SHARDS = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"


class FakeShard:
    """Says of itself what a test wants: which logical clusters it has."""

    def __init__(self, name: str) -> None:
        self.name, self.clusters = name, set[str]()
        self.server = HTTPSServer()
        self.answers_lookups = True
        self.is_followed = False
        """The stream of its changes has begun. When that happens, a proxy forgets its routes."""
        self.server.on("/services/where", self._where)

    def serve(self, cluster: str) -> None:
        self.server.on(f"/clusters/{cluster}/api", lambda request: self._api(cluster, request))

    async def _where(self, request: Received) -> Any:
        if request.query.startswith("since="):
            return await never_ending(request, b'{"revision":1}\n', self._note_followed)
        if not self.answers_lookups:
            return web.Response(status=503)
        cluster = request.query.removeprefix("path=")
        if cluster not in self.clusters:
            return {"shard": self.name, "revision": 1}
        return {"shard": self.name, "revision": 1, "starts_here": True, "cluster": cluster}

    def _note_followed(self) -> None:
        self.is_followed = True

    def _api(self, cluster: str, request: Received) -> Any:
        if cluster not in self.clusters:
            assert request.headers["x-pykcp-routed"] == "1"
            return web.Response(status=421, headers={"x-pykcp-not-here": ""})
        return {"from": self.name, "body": request.body.decode()}


async def never_ending(
    request: Received, first: bytes, begun: Callable[[], None] = lambda: None
) -> web.StreamResponse:
    class Endless(web.Response):
        async def write_eof(self, data: bytes = b"") -> None:
            await self.write(first)
            begun()
            await asyncio.Event().wait()

    response = Endless(status=200)
    response.enable_chunked_encoding()
    return response


def shard_list(shards: list[FakeShard], request: Received) -> Any:
    if "watch=" in request.query:
        if "sendInitialEvents" in request.query:
            return web.json_response(
                {"kind": "Status", "code": 400, "reason": "BadRequest"}, status=400
            )
        return never_ending(request, b"")
    items = [
        {"metadata": {"name": s.name, "resourceVersion": "1"}, "spec": {"baseURL": s.server.url}}
        for s in shards
    ]
    head = {"kind": "ShardList", "apiVersion": "core.kcp.io/v1alpha1"}
    return {**head, "metadata": {"resourceVersion": "1"}, "items": items}


@pytest.fixture
def shards() -> Iterator[list[FakeShard]]:
    made = [FakeShard("root"), FakeShard("shard-1")]
    made[0].server.on(SHARDS, lambda request: shard_list(made, request))
    yield made
    for shard in made:
        shard.server.close()


@pytest.fixture
def proxy(shards: list[FakeShard], tmp_path: pathlib.Path) -> Iterator[FrontProxyProcess]:
    files = ProxyFiles(tmp_path)
    authorities = "".join(shard.server.ca for shard in shards)
    (tmp_path / "shards-ca.crt").write_text(authorities)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "base",
                "cluster": {
                    "certificate-authority": str(tmp_path / "shards-ca.crt"),
                    "server": shards[0].server.url,
                },
            }
        ],
        "contexts": [{"name": "base", "context": {"cluster": "base"}}],
        "current-context": "base",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    mapping = files.mapping("/clusters/", "https://unused")
    mapping["backend_server_ca"] = str(tmp_path / "shards-ca.crt")
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump([mapping]))
    words = [
        f"--mapping-file={tmp_path / 'mapping.yaml'}",
        f"--root-kubeconfig={tmp_path / 'kubeconfig'}",
        f"--shards-kubeconfig={tmp_path / 'kubeconfig'}",
    ]
    process = FrontProxyProcess(files, "front-proxy", words)
    process.start()
    eventually(lambda: all(shard.is_followed for shard in shards))
    yield process
    process.stop()


def ask(proxy: FrontProxyProcess, cluster: str, body: Any = None) -> Any:
    client = proxy.client("alice", cluster=cluster)
    return client.get("/api") if body is None else client.post("/api", body)


def test_a_cluster_that_moved_is_found_again(
    proxy: FrontProxyProcess, shards: list[FakeShard]
) -> None:
    origin, destination = shards
    for shard in shards:
        shard.serve("abc")
    origin.clusters.add("abc")
    assert ask(proxy, "abc").json["from"] == "root"
    origin.clusters.clear()
    destination.clusters.add("abc")  # and nothing is reported on the streams
    reply = ask(proxy, "abc", {"some": "body"})
    assert reply.json == {"from": "shard-1", "body": json.dumps({"some": "body"})}
    for shard in shards:
        shard.answers_lookups = False  # it is known now, whatever shards say
    assert ask(proxy, "abc").json["from"] == "shard-1"


def test_a_cluster_that_is_gone_is_forbidden(
    proxy: FrontProxyProcess, shards: list[FakeShard]
) -> None:
    for shard in shards:
        shard.serve("abc")
    shards[0].clusters.add("abc")
    assert ask(proxy, "abc").status == 200
    shards[0].clusters.clear()
    reply = ask(proxy, "abc")
    assert reply.status == 403, reply
    assert reply.header("x-pykcp-not-here") is None


def test_a_shard_that_contradicts_itself_is_not_asked_for_ever(
    proxy: FrontProxyProcess, shards: list[FakeShard]
) -> None:
    shards[0].clusters.add("abc")
    shards[0].server.on(
        "/clusters/abc/api", lambda _: web.Response(status=421, headers={"x-pykcp-not-here": ""})
    )
    assert ask(proxy, "abc").status == 503  # it may be arriving there: no reason to deny access
    assert shards[0].server.count("/clusters/abc/api") <= 6
