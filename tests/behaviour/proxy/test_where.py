"""What a shard tells a front-proxy: where logical clusters are, and when that changes."""

from __future__ import annotations

import json
import pathlib
import ssl
import tempfile
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.front_proxy import ProxyFiles
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import WORKSPACES, make_workspace

WHERE = "/services/where"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def files() -> Iterator[ProxyFiles]:
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        yield ProxyFiles(pathlib.Path(temporary))


@pytest.fixture(scope="module")
def shard(files: ProxyFiles) -> Iterator[ServerProcess]:
    process = ServerProcess(files.root / "root", files.shard_flags()).start()
    yield process
    process.stop()


@pytest.fixture
def root(shard: ServerProcess) -> TestClient:
    return shard.client(cluster="root")


def look_up(shard: ServerProcess, path: str) -> Any:
    reply = shard.client().get(f"{WHERE}?path={path}")
    assert reply.status == 200, reply
    return reply.json


def test_lookups(shard: ServerProcess, root: TestClient) -> None:
    cluster = make_workspace(root, "team")["spec"]["cluster"]
    answer = look_up(shard, "root:team")
    assert answer["shard"] == "root"
    assert answer["starts_here"]
    assert answer["cluster"] == cluster
    assert answer["type"] == "root:organization"
    assert answer["steps"] == [
        {"above": "root", "name": "team", "cluster": cluster, "shard": "root"}
    ]
    assert look_up(shard, cluster)["cluster"] == cluster
    assert look_up(shard, "root:team:below")["is_missing"]
    assert "starts_here" not in look_up(shard, "nowhere:below")


@pytest.mark.parametrize("path", ["*", "", "Root", "root:", "a/b", ".."])
def test_bad_paths(shard: ServerProcess, path: str) -> None:
    assert shard.client().get(f"{WHERE}?path={path}").status == 400


@pytest.mark.parametrize("since", ["", "-1", "x", "1" * 30])
def test_bad_revisions(shard: ServerProcess, since: str) -> None:
    assert shard.client().get(f"{WHERE}?since={since}").status == 400


def test_a_revision_of_the_future_has_to_begin_anew(shard: ServerProcess) -> None:
    assert shard.client().get(WHERE, since=10**17).status == 410


def test_only_masters_are_answered(shard: ServerProcess, files: ProxyFiles) -> None:
    assert shard.client().post(WHERE, {}).status == 405
    anonymous = TestClient(Access("127.0.0.1", shard.port, "", files.serving_ca.read_text(), ""))
    assert anonymous.get(f"{WHERE}?path=root").status == 403
    assert anonymous.get(WHERE, since=0).status == 403
    anonymous.close()
    admin = shard.client("root")
    admin.prefix = ""
    assert admin.get(f"{WHERE}?path=root").status == 403


def follow(
    shard: ServerProcess, files: ProxyFiles, since: int
) -> tuple[HTTPSConnection, HTTPResponse]:
    context = ssl.create_default_context(cafile=files.serving_ca)
    pair = files.user("shard-admin", ["system:masters"])
    context.load_cert_chain(pair)
    connection = HTTPSConnection("127.0.0.1", shard.port, timeout=30, context=context)
    connection.request("GET", f"{WHERE}?since={since}")
    response = connection.getresponse()
    assert response.status == 200
    return connection, response


def until(response: HTTPResponse, cluster: str, workspace: str) -> list[Any]:
    """The lines up to one about a Workspace."""
    seen = []
    while True:
        seen.append(json.loads(response.readline()))
        if (seen[-1].get("cluster"), seen[-1].get("workspace", "")) == (cluster, workspace):
            return seen


def test_changes_are_streamed_and_resumed(
    shard: ServerProcess, files: ProxyFiles, root: TestClient
) -> None:
    connection, response = follow(shard, files, 0)
    first = json.loads(response.readline())
    assert set(first) == {"revision"}
    made = make_workspace(root, "changing")
    lines = until(response, "root", "changing")
    connection.close()
    assert all(line["revision"] >= first["revision"] for line in lines)
    # what happens while the stream is broken is said when it is resumed
    assert root.delete(f"{WORKSPACES}/changing").status == 200
    connection, response = follow(shard, files, first["revision"])
    until(response, made["spec"]["cluster"], "")
    connection.close()


def test_a_cluster_that_is_not_here(shard: ServerProcess, files: ProxyFiles) -> None:
    """Only a trusted proxy that asks for it learns that the shard does not have a cluster."""
    ca = files.serving_ca.read_text()
    proxy = (str(files.proxy), str(files.proxy))
    user = str(files.user("alice"))
    asks = {"X-Pykcp-Routed": "1", "X-Remote-User": "alice"}
    for pair, headers, status in (
        (proxy, asks, 421),
        (proxy, {"X-Remote-User": "alice"}, 403),
        ((user, user), asks, 403),
    ):
        access = Access("127.0.0.1", shard.port, "", ca, "", pair)
        client = TestClient(access, "nowhere")
        reply = client.get(CONFIG_MAPS, headers=headers)
        client.close()
        assert reply.status == status, (pair, headers, reply)
        assert (reply.header("x-pykcp-not-here") is not None) == (status == 421)
