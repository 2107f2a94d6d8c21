"""The cache server: what it keeps, how it is addressed, and whom it lets in."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import APPLY, MERGE, Reply, TestClient
from pykcp.testing.server import ServerProcess

EXPORTS = "/apis/apis.kcp.io/v1alpha1/apiexports"


def at(shard: ServerProcess, place: str, cluster: str, context: str = "shard-base") -> TestClient:
    client = shard.client(context)
    client.prefix = f"/services/cache/shards/{place}/clusters/{cluster}"
    return client


def export(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": metadata, **more}


def message(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["message"]


@pytest.fixture(scope="module")
def amber(shard: ServerProcess) -> TestClient:
    return at(shard, "amber", "acme")


def test_anything_of_that_name_fits(amber: TestClient) -> None:
    """There is no schema, and spec and status are written together."""
    reply = amber.post(EXPORTS, export("earth", spec="TheSun", size=40000, status={"a": 1}))
    assert reply.status == 201, reply
    made = reply.json
    assert (made["spec"], made["size"], made["status"]) == ("TheSun", 40000, {"a": 1})
    assert amber.get(f"{EXPORTS}/earth").json == made
    made["spec"], made["status"] = "Sol", {"b": 2}
    updated = amber.put(f"{EXPORTS}/earth", made)
    assert (updated.status, updated.json["status"]) == (200, {"b": 2})
    assert updated.json["metadata"]["generation"] == made["metadata"]["generation"] == 1
    assert amber.get(f"{EXPORTS}/earth/status").status == 404


def test_type_and_name_are_needed(amber: TestClient) -> None:
    status, text = message(amber.post(EXPORTS, {"metadata": {"name": "x"}}))
    assert status == 400
    assert "Object 'Kind' is missing" in text
    status, text = message(amber.post(EXPORTS, export("")))
    assert status == 422
    assert "name or generateName is required" in text


def test_shard_and_cluster_are_told(amber: TestClient) -> None:
    made = amber.post(EXPORTS, export("comicdb")).json
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": "acme", "kcp.io/shard": "amber"}


def test_every_version_shows_the_same(amber: TestClient) -> None:
    amber.post(EXPORTS, export("versions", spec={"a": 3}))
    seen = amber.get("/apis/apis.kcp.io/v1alpha2/apiexports/versions").json
    assert (seen["apiVersion"], seen["spec"]) == ("apis.kcp.io/v1alpha2", {"a": 3})


def test_copies_keep_what_they_are(amber: TestClient) -> None:
    """An object that comes with its shard is a copy: uid, generation and age are the original's."""
    given = {
        "uid": "3",
        "generation": 11,
        "creationTimestamp": "2020-01-02T03:04:05Z",
        "annotations": {"kcp.io/shard": "amber"},
    }
    metadata = amber.post(EXPORTS, export("mangodb", metadata=given)).json["metadata"]
    assert {name: metadata[name] for name in ("uid", "generation", "creationTimestamp")} == {
        name: given[name] for name in ("uid", "generation", "creationTimestamp")
    }
    assert "managedFields" not in metadata
    del given["annotations"]
    metadata = amber.post(EXPORTS, export("negative", metadata=given)).json["metadata"]
    assert metadata["uid"] != "3"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2026"


def test_generations_are_taken_as_they_come(amber: TestClient) -> None:
    made = amber.post(EXPORTS, export("generations", spec={})).json
    made["spec"]["size"] = 5
    updated = amber.put(f"{EXPORTS}/generations", made).json
    assert updated["metadata"]["generation"] == 1
    updated["metadata"]["generation"] = 7
    assert amber.put(f"{EXPORTS}/generations", updated).json["metadata"]["generation"] == 7


def test_nobody_waits_for_finalizers(amber: TestClient) -> None:
    amber.post(EXPORTS, export("ghostdb", metadata={"finalizers": ["doNotRemove"]}))
    assert amber.delete(f"{EXPORTS}/ghostdb").json["status"] == "Success"
    assert amber.get(f"{EXPORTS}/ghostdb").status == 404


def test_patch_and_apply(amber: TestClient) -> None:
    amber.post(EXPORTS, export("patched", spec={"a": 1}))
    assert amber.patch(f"{EXPORTS}/patched", {"spec": {"b": 2}}, MERGE).json["spec"] == {
        "a": 1,
        "b": 2,
    }
    applied = amber.patch(
        f"{EXPORTS}/applied", export("applied", spec={"x": 1}), APPLY, fieldManager="me"
    )
    assert (applied.status, applied.json["spec"]) == (201, {"x": 1})
    dry = amber.post(EXPORTS, export("dry"), dryRun="All").json["metadata"]["annotations"]
    assert dry == {"kcp.io/cluster": "acme", "kcp.io/shard": "amber"}


@pytest.fixture(scope="module")
def spread(shard: ServerProcess) -> None:
    for place in ("one", "two"):
        for cluster in ("left", "right"):
            made = at(shard, place, cluster).post(EXPORTS, export("spread"))
            assert made.status == 201


def places(reply: Reply) -> set[tuple[str, str]]:
    found = [i["metadata"] for i in reply.json["items"] if i["metadata"]["name"] == "spread"]
    return {(m["annotations"]["kcp.io/shard"], m["annotations"]["kcp.io/cluster"]) for m in found}


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize(
    ("place", "cluster", "expected"),
    [
        ("one", "left", {("one", "left")}),
        ("one", "*", {("one", "left"), ("one", "right")}),
        ("*", "left", {("one", "left"), ("two", "left")}),
        ("%2A", "*", {("one", "left"), ("one", "right"), ("two", "left"), ("two", "right")}),
        ("tw", "*", set()),
        ("two", "lef", set()),
    ],
)
def test_lists_over_shards_and_clusters(
    shard: ServerProcess, place: str, cluster: str, expected: set[tuple[str, str]]
) -> None:
    client = at(shard, place, cluster)
    assert places(client.get(EXPORTS)) == expected
    assert places(client.get(EXPORTS, fieldSelector="metadata.name=spread")) == expected
    assert places(client.get(EXPORTS, limit=500)) == expected


@pytest.mark.parametrize("scope", [("moon", "sea"), ("moon", "*"), ("*", "sea"), ("*", "*")])
def test_watches_over_shards_and_clusters(shard: ServerProcess, scope: tuple[str, str]) -> None:
    client = at(shard, *scope)
    name = f"watched-{scope[0]}-{scope[1]}".replace("*", "all")
    since = client.get(EXPORTS).json["metadata"]["resourceVersion"]
    events = client.watch(EXPORTS, resourceVersion=since, fieldSelector=f"metadata.name={name}")
    writer = at(shard, "moon", "sea")
    at(shard, "mars", "plain").post(EXPORTS, export(f"{name}-not"))
    writer.post(EXPORTS, export(name))
    first = next(events)
    writer.delete(f"{EXPORTS}/{name}")
    second = next(events)
    events.close()  # type: ignore[attr-defined]
    assert [first["type"], second["type"]] == ["ADDED", "DELETED"]
    assert first["object"]["metadata"]["annotations"]["kcp.io/shard"] == "moon"
    replayed = client.watch(EXPORTS, resourceVersion=since, fieldSelector=f"metadata.name={name}")
    assert [next(replayed)["type"], next(replayed)["type"]] == ["ADDED", "DELETED"]
    replayed.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("", 400, "a shard name is required"),
        ("/", 400, "a shard name is required"),
        ("/apis", 400, "a shard name is required"),
        ("/clusters/root/apis", 400, "a shard name is required"),
        ("/shards/root", 400, "unable to parse shard: no `/` found in path root"),
        ("/shards/ROOT/api", 400, 'invalid shard: "ROOT" does not match the regex'),
        ("/shards/root/api", 404, "the server could not find the requested resource"),
        (
            f"/shards/root/clusters/a:b{EXPORTS}",
            400,
            'invalid cluster: "a:b" is not a logical cluster name',
        ),
        (
            f"/shards/root/clusters/root{EXPORTS}/x",
            404,
            'apiexports.apis.kcp.io "x" not found',
        ),
    ],
)
def test_refusals(shard: ServerProcess, path: str, status: int, expected: str) -> None:
    client = shard.client()
    client.prefix = "/services/cache"
    assert message(client.get(path)) == (status, expected)


def test_an_unknown_group(shard: ServerProcess) -> None:
    client = shard.client()
    client.prefix = "/services/cache/shards/root/clusters/root"
    reply = client.get("/apis/foo.bar/v1/x")
    assert (reply.status, reply.body) == (404, b"404 page not found\n")


def test_metrics_are_not_of_a_shard(shard: ServerProcess) -> None:
    client = shard.client()
    client.prefix = "/services/cache"
    assert client.get("/metrics").status == 200
    for scope in ("/shards/amber", "/shards/amber/clusters/root"):
        reply = client.get(f"{scope}/metrics")
        assert reply.status == 501
        assert reply.body == b"shard-level endpoint not available at shard or workspace scope\n"


def test_only_masters_are_let_in(shard: ServerProcess) -> None:
    expected = (
        'apiexports.apis.kcp.io is forbidden: User "{}" cannot list resource "apiexports" '
        'in API group "apis.kcp.io" at the cluster scope'
    )
    admin = at(shard, "root", "root", "base")
    assert message(admin.get(EXPORTS)) == (403, expected.format("kcp-admin"))
    nobody = at(shard, "root", "root").with_token("")
    assert message(nobody.get(EXPORTS)) == (403, expected.format("system:anonymous"))
    nobody.prefix = "/services/cache"
    assert nobody.get("/readyz").body == b"ok"
    assert nobody.get("/metrics").status == 403


def test_served_kinds(amber: TestClient) -> None:
    groups = amber.get("/apis").json["groups"]
    found = set()
    for group in groups:
        for version in group["versions"]:
            resources = amber.get(f"/apis/{version['groupVersion']}").json["resources"]
            found |= {(group["name"], resource["name"]) for resource in resources}
    assert len(found) == 22
    assert ("core.kcp.io", "shards") in found
    assert ("rbac.authorization.k8s.io", "rolebindings") in found
