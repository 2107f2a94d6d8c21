"""Logical clusters: isolated API spaces behind one address."""

from __future__ import annotations

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

CM = "/api/v1/namespaces/default/configmaps"


def _map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


def test_two_clusters_do_not_see_each_other(shard: ServerProcess) -> None:
    """An object of one cluster is in no list, get or watch of another."""
    one, two = make_cluster(shard, "iso1"), make_cluster(shard, "iso2")
    assert one.post(CM, _map("secret-plan", a="1")).status == 201
    assert two.get(f"{CM}/secret-plan").status == 404
    assert "secret-plan" not in two.get(CM).body.decode()
    assert two.post(CM, _map("secret-plan", a="2")).status == 201
    assert one.get(f"{CM}/secret-plan").json["data"] == {"a": "1"}
    assert two.get(f"{CM}/secret-plan").json["data"] == {"a": "2"}


def test_every_object_names_its_cluster(cluster: TestClient) -> None:
    """The annotation is the store's: what a client sends in it is ignored."""
    body = _map("x")
    body["metadata"] = {"name": "x", "annotations": {"kcp.io/cluster": "root", "mine": "1"}}
    made = cluster.post(CM, body).json
    name = cluster.prefix.rpartition("/")[2]
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": name, "mine": "1"}
    again = cluster.patch(f"{CM}/x", {"metadata": {"annotations": {"kcp.io/cluster": "root"}}}).json
    assert again["metadata"]["annotations"]["kcp.io/cluster"] == name


def test_wildcard_lists_all_clusters(shard: ServerProcess) -> None:
    """`/clusters/*` lists over all clusters, for system:masters only, and only reads."""
    for name in ("wild1", "wild2"):
        make_cluster(shard, name).post(CM, _map("everywhere"))
    everywhere = shard.client(cluster="*")
    found = everywhere.get("/api/v1/configmaps", fieldSelector="metadata.name=everywhere").json
    seen = [i["metadata"]["annotations"]["kcp.io/cluster"] for i in found["items"]]
    assert seen == ["wild1", "wild2"]
    assert everywhere.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).status == 405
    admin = shard.client("base", cluster="*")
    assert admin.get("/api/v1/configmaps").status == 403


def test_unknown_clusters_are_refused(shard: ServerProcess) -> None:
    """Nobody but system:masters can tell an unknown cluster from a forbidden one; bad names are 400."""
    masters = shard.client(cluster="nosuch")
    assert masters.get("/api/v1/namespaces").json["items"] == []
    assert masters.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).status == 403
    assert shard.client("base", cluster="nosuch").get("/api/v1/namespaces").status == 403
    assert shard.client(cluster="root:nosuch").get("/api").status == 404
    bad = shard.client(cluster="Bad").get("/api")
    assert bad.status == 400
    assert bad.json["message"] == 'invalid cluster: "Bad" does not match the regex'


def test_nothing_in_a_path_reaches_another_cluster(shard: ServerProcess) -> None:
    """Dots, slashes and encodings in names stay within the cluster they are sent to."""
    victim = make_cluster(shard, "victim")
    victim.post(CM, _map("prize"))
    attacker = make_cluster(shard, "attacker")
    for path in (
        "/api/v1/namespaces/..%2F..%2Fvictim%2Fdefault/configmaps/prize",
        "/api/v1/namespaces/default/configmaps/..%2F..%2Fvictim%2Fdefault%2Fprize",
        "/clusters/victim/api/v1/namespaces/default/configmaps/prize",
        "/../victim/api/v1/namespaces/default/configmaps/prize",
    ):
        answer = attacker.get(path)
        assert answer.status in {400, 403, 404}, (path, answer)
        assert b'prize",' not in answer.body.replace(b'"prize" not found', b"")
