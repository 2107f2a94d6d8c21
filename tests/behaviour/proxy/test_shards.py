"""One front-proxy before several shards."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import make_workspace

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(pathlib.Path(tmp_path_factory.mktemp("fleet"))) as found:
        yield found


@pytest.fixture
def root(two: Fleet) -> TestClient:
    return two.client(cluster="root")


def make_cluster(two: Fleet, shard: str, name: str) -> TestClient:
    """A logical cluster on a certain shard; a client of the proxy in it."""
    made = two.client(shard, name).post(
        LOGICAL_CLUSTERS,
        {
            "apiVersion": "core.kcp.io/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "cluster"},
            "spec": {},
        },
    )
    assert made.status == 201, made
    client = two.client(cluster=name)
    eventually(lambda: client.get(CONFIG_MAPS).status == 200)  # a controller makes it ready
    return client


def test_logical_clusters_of_both_shards_are_reached(two: Fleet) -> None:
    for shard in two.shards:
        client = make_cluster(two, shard, f"on-{shard}")
        assert client.post("/api/v1/namespaces", {"metadata": {"name": "default"}}).status == 201
        assert client.post(CONFIG_MAPS, {"metadata": {"name": shard}}).status == 201
        at_shard = two.client(shard, f"on-{shard}")
        assert at_shard.get(f"{CONFIG_MAPS}/{shard}").status == 200


def make_on(parent: TestClient, shard: str, name: str) -> TestClient:
    """A workspace on a certain shard; a client in it."""
    make_workspace(parent, name, location={"selector": {"matchLabels": {"name": shard}}})
    inside = parent.in_cluster(f"{parent.prefix.removeprefix('/clusters/')}:{name}")
    found = inside.get(f"{LOGICAL_CLUSTERS}/cluster").json
    assert found["metadata"]["annotations"]["core.kcp.io/shard"] == shard
    return inside


def test_a_path_crosses_shards(root: TestClient) -> None:
    team = make_on(make_on(make_on(root, "shard-1", "org"), "root", "unit"), "shard-1", "team")
    assert team.prefix == "/clusters/root:org:unit:team"
    assert team.post(CONFIG_MAPS, {"metadata": {"name": "one"}}).status == 201


def test_a_tree_beside_root(two: Fleet) -> None:
    made = two.client("shard-1", "acme-cluster").post(
        LOGICAL_CLUSTERS,
        {
            "apiVersion": "core.kcp.io/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "cluster", "annotations": {"kcp.io/path": "acme"}},
            "spec": {},
        },
    )
    assert made.status == 201, made
    acme = two.client(cluster="acme")
    assert eventually(lambda: acme.get(CONFIG_MAPS).status == 200)
    assert two.client(cluster="acme:nowhere").get(CONFIG_MAPS).status == 403


def test_a_dead_shard_takes_only_its_own_clusters_along(two: Fleet, root: TestClient) -> None:
    inside = make_cluster(two, "shard-1", "dying")
    assert inside.get(CONFIG_MAPS).status == 200
    two["shard-1"].kill()
    try:
        reply = inside.get(CONFIG_MAPS)
        assert (reply.status, reply.json["reason"]) == (502, "ServiceUnavailable")
        assert reply.json["message"] == "shard shard-1 does not answer"
        assert root.get(CONFIG_MAPS).status == 200
        unknown = root.in_cluster("nowhere").get(CONFIG_MAPS)
        assert unknown.status == 503
        assert "shard-1" in unknown.json["message"]
    finally:
        two["shard-1"].start()
    assert eventually(lambda: inside.get(CONFIG_MAPS).status == 200)


def test_a_stopped_shard_is_noticed(two: Fleet, root: TestClient) -> None:
    """It neither answers nor closes its connections."""
    inside = make_cluster(two, "shard-1", "frozen")
    assert inside.get(CONFIG_MAPS).status == 200
    two["shard-1"].pause()
    try:
        assert inside.get(CONFIG_MAPS).status == 502
        assert root.get(CONFIG_MAPS).status == 200
        assert root.in_cluster("nowhere").get(CONFIG_MAPS).status == 503
    finally:
        two["shard-1"].resume()
    assert eventually(lambda: inside.get(CONFIG_MAPS).status == 200)


def test_many_requests_to_a_stopped_shard_delay_nothing_elsewhere(
    two: Fleet, root: TestClient
) -> None:
    """Also of the same user, who has more of them under way than the proxy forwards at a time."""
    there, here = make_on(root, "shard-1", "stuck"), make_on(root, "root", "free")
    assert there.get(CONFIG_MAPS).status == 200
    clients = [two.client(cluster="root:stuck") for _ in range(80)]
    with ThreadPoolExecutor(len(clients)) as pool:
        two["shard-1"].pause()
        try:
            asked = [pool.submit(client.get, CONFIG_MAPS) for client in clients]
            assert not wait(asked, timeout=0.5).done
            assert here.get(CONFIG_MAPS).status == 200
            assert not any(one.done() for one in asked)
        finally:
            two["shard-1"].resume()
        assert {one.result().status for one in asked} <= {200, 502, 503}
    eventually(lambda: there.get(CONFIG_MAPS).status == 200)


def test_the_proxy_starts_while_root_is_away(two: Fleet, root: TestClient) -> None:
    client = make_cluster(two, "shard-1", "steady")
    below = make_on(root, "shard-1", "below")
    two["root"].kill()
    two["front-proxy"].kill()
    try:
        two["front-proxy"].start()
        reply = client.get(CONFIG_MAPS)
        assert reply.status == 200, reply
        assert two.client(cluster="nowhere").get(CONFIG_MAPS).status == 503
        by_path = below.get(CONFIG_MAPS)  # its shard knows the path
        assert by_path.status == 200, by_path
        assert root.get(CONFIG_MAPS).status == 503
    finally:
        two["root"].start()
    assert eventually(lambda: root.get(CONFIG_MAPS).status == 200)


def test_a_new_proxy_starts_while_root_is_away(two: Fleet, root: TestClient) -> None:
    """It has never seen the root shard, but is told which shards to expect."""
    client = make_cluster(two, "shard-1", "published")
    specs = {one["metadata"]["name"]: one["spec"] for one in root.get(SHARDS).json["items"]}
    specs["gone"] = {"baseURL": "https://127.0.0.1:1"}
    file = two.files.directory / "expected.json"
    file.write_text(json.dumps([{"metadata": {"name": n}, "spec": s} for n, s in specs.items()]))
    proxy = two["front-proxy"]
    member = proxy.member
    two["root"].kill()
    proxy.kill()
    shutil.rmtree(proxy.root)
    try:
        proxy.member = member._replace(words=(*member.words, f"--shards-file={file}"))
        proxy.start()
        assert client.get(CONFIG_MAPS).status == 200
        assert two.client(cluster="nowhere").get(CONFIG_MAPS).status == 503
    finally:
        two["root"].start()
        proxy.member = member
    # What root does not have is forgotten. It is asked after pauses of up to half a minute.
    eventually(lambda: two.client(cluster="nowhere").get(CONFIG_MAPS).status == 403, 60)
    (remembered,) = proxy.root.glob("front-proxy-shards.json")
    eventually(lambda: "gone" not in remembered.read_text())
