"""Three servers on one etcd: one shard, whichever of them is asked."""

from __future__ import annotations

import pathlib
import random
import re
import threading
from collections.abc import Iterator

import pytest

from pykcp.clients.where import PROGRESS, WHERE
from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.processes import gauge, published_exports
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
    ),
]

MAPS = "/api/v1/namespaces/default/configmaps"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
TAKE_OVER_SECONDS = 6.0


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> Iterator[list[ServerProcess]]:
    """Started all at once, on an etcd that is empty."""
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    made = [
        ServerProcess(tmp_path / f"server{n}", [f"--etcd-servers={etcd.url}"]) for n in range(3)
    ]
    starting = [threading.Thread(target=server.start) for server in made]
    for thread in starting:
        thread.start()
    for thread in starting:
        thread.join()
    try:
        assert all(server.port for server in made)
        yield made
    finally:
        for server in made:
            server.stop()
        etcd.kill()


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_every_server_reads_what_any_has_acknowledged(servers: list[ServerProcess]) -> None:
    make_cluster(servers[0], "shared")
    clients = [server.client(cluster="shared") for server in servers]
    choose = random.Random(13)
    clients[0].post(MAPS, config_map("counter", value="0"))
    for number in range(1, 200):
        changed = choose.choice(clients).patch(f"{MAPS}/counter", {"data": {"value": str(number)}})
        assert changed.status == 200, changed
        version = changed.json["metadata"]["resourceVersion"]
        reader = choose.choice(clients)
        assert reader.get(f"{MAPS}/counter").json["data"]["value"] == str(number)
        assert reader.get(MAPS, resourceVersion=version).status == 200
        listed = choose.choice(clients).get(MAPS).json
        values = [one["data"]["value"] for one in listed["items"] if "value" in one["data"]]
        assert values == [str(number)]
    # A namespace that one server has made is known to another one that is asked next.
    for number in range(20):
        first, second = choose.sample(clients, 2)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}}
        assert first.post("/api/v1/namespaces", namespace).status == 201
        made = second.post(f"/api/v1/namespaces/n{number}/configmaps", config_map("one"))
        assert made.status == 201, made


def test_a_watch_hears_what_another_server_was_asked_for(servers: list[ServerProcess]) -> None:
    """Watches over all shards depend on it: a balancer may send the question to any server."""
    make_cluster(servers[0], "shared")
    first, second = (server.client(cluster="shared") for server in servers[:2])
    start = first.get(MAPS).json["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "allowWatchBookmarks": "true", "timeoutSeconds": 30}
    stream = second.watch(MAPS, headers={PROGRESS: "1"}, **query)
    assert first.post(MAPS, config_map("one")).status == 201
    event = next(one for one in stream if one["type"] != "BOOKMARK")
    wanted = int(event["object"]["metadata"]["resourceVersion"]) + (1 << 20)
    first.prefix = ""
    assert first.get(f"{WHERE}?advance={wanted}").status == 200
    for event in stream:
        if int(event["object"]["metadata"]["resourceVersion"]) >= wanted:
            break
    assert event["type"] == "BOOKMARK"


def test_no_number_of_servers_exceeds_the_object_limit(servers: list[ServerProcess]) -> None:
    root = servers[0].client(cluster="root")
    make_workspace(root, "limited")
    cluster = root.get(f"{WORKSPACES}/limited").json["spec"]["cluster"]
    counted = servers[0].client(cluster=cluster)
    # More than there is, so that the error says how many there are.
    set_limit(counted, 1)
    refused = counted.post(MAPS, config_map("one"))
    assert refused.status == 403, refused
    found = re.search(r"\((\d+)/1 objects\)", refused.json["message"])
    assert found is not None
    left = 20
    set_limit(counted, int(found[1]) + left)
    made: list[int] = []

    def create(number: int) -> None:
        client = servers[number % 3].client(cluster=cluster)
        made.extend(client.post(MAPS, config_map(f"{number}-{n}")).status for n in range(8))

    creating = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in creating:
        thread.start()
    for thread in creating:
        thread.join()
    assert sorted(made) == [201] * left + [403] * (48 - left)


def set_limit(client: TestClient, limit: int) -> None:
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    annotations = {"core.kcp.io/max-total-objects": str(limit)}
    changed = client.patch(path, {"metadata": {"annotations": annotations}})
    assert changed.status == 200, changed


def test_another_server_runs_the_controllers_when_the_leader_is_killed(
    servers: list[ServerProcess],
) -> None:
    leader = eventually(lambda: [s for s in servers if gauge(s, "pykcp_leader")])
    assert len(leader) == 1
    others = [server for server in servers if server is not leader[0]]
    assert [gauge(server, "pykcp_servers") for server in servers] == [3, 3, 3]
    client = others[0].client(cluster="root")
    make_workspace(client, "before")
    leader[0].kill()
    make_workspace(client, "after", TAKE_OVER_SECONDS)
    assert sum(gauge(server, "pykcp_leader") for server in others) == 1
    assert (
        others[1].client(cluster="root").get(f"{WORKSPACES}/after").json["status"]["phase"]
        == "Ready"
    )
    leader[0].start()
    eventually(lambda: gauge(leader[0], "pykcp_servers") == 3)
    assert leader[0].client(cluster="root").get(f"{WORKSPACES}/after").status == 200


def make_workspace(client: TestClient, name: str, seconds: float = 15.0) -> None:
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {"type": {"name": "universal", "path": "root"}},
    }
    made = client.post(WORKSPACES, body)
    assert made.status == 201, made

    def is_ready() -> bool:
        status = client.get(f"{WORKSPACES}/{name}").json.get("status") or {}
        return bool(status.get("phase") == "Ready")

    eventually(is_ready, seconds)


def test_every_server_has_what_the_leader_has_published(servers: list[ServerProcess]) -> None:
    """The embedded cache is one for all of them."""
    exports = "/apis/apis.kcp.io/v1alpha2/apiexports"
    body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "spec": {}}
    root = servers[0].client(cluster="root")
    assert root.post(exports, {**body, "metadata": {"name": "shared"}}).status == 201
    for server in servers:
        eventually(lambda server=server: "shared" in published_exports(server))
    (leader,) = (one for one in servers if gauge(one, "pykcp_leader"))
    leader.kill()
    others = [one for one in servers if one is not leader]
    eventually(lambda: sum(gauge(one, "pykcp_leader") for one in others) == 1, 15)
    root = others[0].client(cluster="root")
    assert root.delete(f"{exports}/shared").status == 200
    for server in others:
        eventually(lambda server=server: "shared" not in published_exports(server))
