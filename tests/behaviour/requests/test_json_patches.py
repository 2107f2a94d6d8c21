"""JSON patches name what the client sees, also the annotation that the server adds."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import JSON_PATCH, Reply, TestClient, eventually

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CATS = "/apis/example.com/v1/namespaces/default/cats"
CLUSTER = "kcp.io/cluster"
CLUSTER_PATH = "/metadata/annotations/kcp.io~1cluster"
SMALL, LARGE = "v", "v" * 100_000
"""The patch of a large object is applied in a worker process."""


def _patch(cluster: TestClient, path: str, *operations: dict[str, Any]) -> Reply:
    return cluster.request("PATCH", path, list(operations), content_type=JSON_PATCH)


def _define_cats(cluster: TestClient) -> None:
    opened = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": opened, "status": opened}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    made = cluster.post(DEFINITIONS, {
        "metadata": {"name": "cats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"},
        },
    })  # fmt: skip
    assert made.status == 201, made
    eventually(lambda: cluster.get(CATS).status == 200)


@pytest.fixture(params=["small", "large", "custom", "status"])
def path(request: pytest.FixtureRequest, cluster: TestClient) -> str:
    """An object without annotations of its own, as its patches name it."""
    if request.param in ("small", "large"):
        value = SMALL if request.param == "small" else LARGE
        assert cluster.post(MAPS, {"metadata": {"name": "x"}, "data": {"k": value}}).status == 201
        return f"{MAPS}/x"
    _define_cats(cluster)
    body = {"apiVersion": "example.com/v1", "kind": "Cat", "metadata": {"name": "x"}}
    assert cluster.post(CATS, body).status == 201
    return f"{CATS}/x/status" if request.param == "status" else f"{CATS}/x"


def test_an_annotation_is_added_to_those_that_are_seen(cluster: TestClient, path: str) -> None:
    before = cluster.get(path).json["metadata"]["annotations"]
    added = _patch(cluster, path, {"op": "add", "path": "/metadata/annotations/note", "value": "1"})
    assert added.status == 200, added
    after = added.json["metadata"]["annotations"]
    assert after == ({**before, "note": "1"} if not path.endswith("/status") else before)


def test_what_the_server_sets_can_be_taken_away_and_stays(cluster: TestClient, path: str) -> None:
    """Clients that compare their object with the served one send such patches."""
    before = cluster.get(path).json
    names = ("annotations", "managedFields", "uid", "creationTimestamp")
    present = [name for name in names if name in before["metadata"]]
    reply = _patch(
        cluster, path, *({"op": "remove", "path": f"/metadata/{name}"} for name in present)
    )
    assert reply.status == 200, reply
    assert reply.json == before


def test_the_cluster_annotation_can_be_tested_but_not_changed(
    cluster: TestClient, path: str
) -> None:
    before = cluster.get(path).json
    name = before["metadata"]["annotations"][CLUSTER]
    refused = _patch(cluster, path, {"op": "test", "path": CLUSTER_PATH, "value": "other"})
    assert refused.status == 422
    kept = _patch(
        cluster,
        path,
        {"op": "test", "path": CLUSTER_PATH, "value": name},
        {"op": "replace", "path": CLUSTER_PATH, "value": "other"},
    )
    assert (kept.status, kept.json) == (200, before)
    gone = _patch(cluster, path, {"op": "remove", "path": CLUSTER_PATH})
    assert (gone.status, gone.json) == (200, before)


def test_every_member_that_is_served_can_be_tested(cluster: TestClient, path: str) -> None:
    served = cluster.get(path).json
    tests = [{"op": "test", "path": f"/{name}", "value": value} for name, value in served.items()]
    assert _patch(cluster, path, *tests).status == 200
