"""Mounted workspaces: they stand for something elsewhere, and requests go there."""

from __future__ import annotations

import io
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.https import Answer, HTTPSServer, Received
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.mounts import CLUSTERS, becomes, install_kind, mount, report
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that shows a certificate to mounts."""
    directory: pathlib.Path = tmp_path_factory.mktemp("mounts")
    authority = create_ca("mounts", time.time())
    pair = issue_client(authority, "shard", (), time.time())
    (directory / "client.crt").write_bytes(pair.certificate)
    (directory / "client.key").write_bytes(pair.key)
    flags = (
        "--feature-gates=WorkspaceMounts=true",
        f"--mount-proxy-client-cert-file={directory / 'client.crt'}",
        f"--mount-proxy-client-key-file={directory / 'client.key'}",
    )
    with server(*flags, directory=directory) as process:
        install_kind(process.client(cluster="root"))
        yield process


@pytest.fixture
def backend() -> Iterator[HTTPSServer]:
    made = HTTPSServer()
    yield made
    made.close()


def condition(workspace: Object) -> Any:
    found = {c["type"]: c for c in workspace["status"].get("conditions", [])}
    return found["WorkspaceMountReady"]


def test_a_mount_follows_what_it_stands_for(shard: ServerProcess, root: TestClient) -> None:
    name = mount(root)
    missing = becomes(root, name, "Unavailable")
    assert condition(missing)["reason"] == "MountObjectNotFound"
    assert condition(missing)["message"] == f'KubeCluster "/{name}" not found'
    head = {"apiVersion": "contrib.example.io/v1", "kind": "KubeCluster"}
    assert root.post(CLUSTERS, {**head, "metadata": {"name": name}}).status == 201
    report(root, name, "https://x.example/there", "Connecting")

    def is_waiting() -> bool:
        found = condition(root.get(f"{WORKSPACES}/{name}").json)
        why = f'Mount is not reporting ready. See KubeCluster "{name}" status for more details'
        return bool(found["reason"] == "MountObjectNotReady" and found["message"] == why)

    eventually(is_waiting)
    assert shard.client(cluster=f"root:{name}").get("/api").status == 503
    report(root, name, "https://x.example/there", "Ready")
    ready = becomes(root, name, "Ready")
    assert ready["spec"]["URL"] == "https://x.example/there"
    assert condition(ready)["status"] == "True"


def test_requests_travel_as_they_are(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    """Method, path, query, body, credentials; but not what would be believed of a proxy."""
    seen: list[Received] = []

    def answer(received: Received) -> Answer:
        seen.append(received)
        return web.Response(
            status=418, text="teapot", headers={"X-Mine": "1", "Connection": "close"}
        )

    backend.on("/base/api/v1/things", answer)
    name = mount(root, f"{backend.url}/base/")
    becomes(root, name, "Ready")
    client = shard.client(cluster=f"root:{name}").with_token("theirs")
    headers = {"X-Remote-User": "admin", "X-Custom": "yes", "Connection": "keep-alive, x-hop"}
    reply = client.post("/api/v1/things", {"a": 1}, headers={**headers, "X-Hop": "1"}, q="a b")
    assert (reply.status, reply.body) == (418, b"teapot")
    assert reply.header("x-mine") == "1"
    (received,) = seen
    assert received.method == "POST"
    assert json.loads(received.body) == {"a": 1}
    sent = {k.lower(): v for k, v in received.headers.items()}
    assert sent["authorization"] == "Bearer theirs"
    assert sent["x-custom"] == "yes"
    assert sent["x-forwarded-for"] == "127.0.0.1"
    assert "x-remote-user" not in sent
    assert "x-hop" not in sent


async def test_large_bodies_travel_both_ways(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    """Also those that the server itself would refuse: they are streamed."""
    backend.on("/upload", lambda received: received.body)
    name = mount(root, backend.url)
    becomes(root, name, "Ready")
    url = f"https://127.0.0.1:{shard.port}/clusters/root:{name}/upload"
    body = bytes(range(256)) * 40960
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.post(url, data=io.BytesIO(body)) as answer,
    ):
        assert answer.status == 200
        assert await answer.read() == body


def test_watches_travel_too(shard: ServerProcess, root: TestClient) -> None:
    """A mount of another workspace of the same server: its events come as they happen."""
    name = mount(root, f"https://127.0.0.1:{shard.port}/clusters/root")
    becomes(root, name, "Ready")
    client = shard.client(cluster=f"root:{name}")
    maps = "/api/v1/namespaces/default/configmaps"
    events = client.watch(maps)
    made = client.post(maps, {"metadata": {"name": f"through-{name}"}})
    assert made.json["metadata"]["annotations"] == {"kcp.io/cluster": "root"}
    for event in events:
        if event["object"]["metadata"]["name"] == f"through-{name}":
            break
    events.close()


async def test_websockets_travel_too(shard: ServerProcess, root: TestClient) -> None:
    """Messages go both ways, and a refusal comes back as it was."""
    name = mount(root, f"https://127.0.0.1:{shard.port}/clusters/root")
    becomes(root, name, "Ready")
    token = read_access(shard.kubeconfig, "shard-base").token
    maps = f"wss://127.0.0.1:{shard.port}/clusters/root:{name}/api/v1/namespaces/default/configmaps"
    allowed = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        async with session.ws_connect(f"{maps}?watch=true", headers=allowed) as socket:
            root.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"ws-{name}"}})
            async for message in socket:
                if json.loads(message.data)["object"]["metadata"]["name"] == f"ws-{name}":
                    break
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await session.ws_connect(f"{maps}?watch=true", headers={"Authorization": "Bearer x"})
    assert refusal.value.status == 401


def test_a_mount_that_does_not_answer(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    url = backend.url
    backend.close()
    name = mount(root, url)
    becomes(root, name, "Ready")
    assert shard.client(cluster=f"root:{name}").get("/api").status == 502


@pytest.mark.parametrize("url", ["https://169.254.169.254", "https://[fe80::1]", "https://0.0.0.0"])
def test_mounts_that_may_not_be(shard: ServerProcess, root: TestClient, url: str) -> None:
    name = mount(root, url)
    becomes(root, name, "Ready")
    assert shard.client(cluster=f"root:{name}").get("/api").status == 502


async def test_redirects_are_the_clients_to_follow(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    """Also those of a WebSocket, which would take the client's credentials along."""
    other = HTTPSServer()
    backend.on("/api", lambda _: web.Response(status=307, headers={"Location": other.url}))
    name = mount(root, backend.url)
    becomes(root, name, "Ready")
    reply = shard.client(cluster=f"root:{name}").get("/api")
    assert (reply.status, reply.header("location")) == (307, other.url)
    url = f"https://127.0.0.1:{shard.port}/clusters/root:{name}/api"
    socket = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Authorization": "Bearer x",
    }
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.get(url, headers=socket, allow_redirects=False) as answer,
        ):
            assert (answer.status, answer.headers["Location"]) == (307, other.url)
        assert (backend.count("/api"), other.received) == (2, [])
    finally:
        other.close()


def test_a_mount_of_itself_is_noticed(shard: ServerProcess, root: TestClient) -> None:
    name = mount(root, "https://x.example")
    report(root, name, f"https://127.0.0.1:{shard.port}/clusters/root:{name}", "Ready")
    eventually(lambda: name in root.get(f"{WORKSPACES}/{name}").json["spec"].get("URL", ""))
    reply = shard.client(cluster=f"root:{name}").get("/api")
    assert (reply.status, reply.body) == (508, b"mount loop detected\n")


def test_a_mount_can_be_deleted(root: TestClient) -> None:
    name = mount(root, "https://x.example")
    becomes(root, name, "Ready")
    assert root.delete(f"{WORKSPACES}/{name}").status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/{name}").status == 404)
