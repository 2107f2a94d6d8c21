"""The end of a namespace, as clients see it."""

from __future__ import annotations

import os
import pathlib

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

NAMESPACES = "/api/v1/namespaces"


def _make(client: TestClient, name: str) -> str:
    assert client.post(NAMESPACES, {"metadata": {"name": name}}).status == 201
    return f"{NAMESPACES}/{name}"


def _map(client: TestClient, namespace: str, name: str, *finalizers: str) -> str:
    body = {"metadata": {"name": name, "finalizers": list(finalizers)}}
    assert client.post(f"{namespace}/configmaps", body).status == 201
    return f"{namespace}/configmaps/{name}"


def _conditions(namespace: Object) -> dict[str, Object]:
    return {c["type"]: c for c in namespace["status"].get("conditions") or ()}


def test_its_content_goes_with_it(shard: ServerProcess) -> None:
    """Everything of every kind in it, and nothing of other namespaces or clusters."""
    one, two = make_cluster(shard, "ns-one"), make_cluster(shard, "ns-two")
    for client in (one, two):
        for name in ("a", "ab"):
            namespace = _make(client, name)
            _map(client, namespace, "x")
            role = {"metadata": {"name": "r"}, "rules": []}
            path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/roles"
            assert client.post(path, role).status == 201
    answer = one.delete(f"{NAMESPACES}/a")
    assert answer.status == 200
    assert answer.json["status"]["phase"] == "Terminating"
    eventually(lambda: one.get(f"{NAMESPACES}/a").status == 404)
    assert [m["metadata"]["namespace"] for m in one.get("/api/v1/configmaps").json["items"]] == [
        "ab", "ab", "default",
    ]  # fmt: skip
    roles = one.get("/apis/rbac.authorization.k8s.io/v1/roles").json["items"]
    assert [r["metadata"]["namespace"] for r in roles] == ["ab"]
    assert two.get(f"{NAMESPACES}/a/configmaps/x").status == 200


def test_finalizers_of_content_hold_it_and_are_reported(cluster: TestClient) -> None:
    namespace = _make(cluster, "held")
    held = _map(cluster, namespace, "held", "example.com/b", "example.com/a")
    also = _map(cluster, namespace, "also", "example.com/a")
    free = _map(cluster, namespace, "free")
    cluster.delete(namespace)
    eventually(lambda: len(_conditions(cluster.get(namespace).json)) == 5)
    found = _conditions(cluster.get(namespace).json)
    assert cluster.get(free).status == 404
    assert found["NamespaceContentRemaining"]["status"] == "True"
    assert found["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 2 resource instances"
    )
    assert found["NamespaceFinalizersRemaining"]["reason"] == "SomeFinalizersRemain"
    assert found["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "example.com/a in 2 resource instances, example.com/b in 1 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"]["status"] == "False"
    assert found["NamespaceDeletionDiscoveryFailure"]["reason"] == "ResourcesDiscovered"
    refused = cluster.post(f"{namespace}/configmaps", {"metadata": {"name": "new"}})
    assert refused.status == 403
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert cluster.patch(held, {"metadata": {"finalizers": None}}, MERGE).status == 200
    eventually(
        lambda: "has 1 resource" in _message(cluster, namespace, "NamespaceContentRemaining"), 5
    )
    assert cluster.patch(also, {"metadata": {"finalizers": None}}, MERGE).status == 200
    # Sooner than it would be looked at again without having heard of it.
    eventually(lambda: cluster.get(namespace).status == 404, 5)


def _message(client: TestClient, namespace: str, kind: str) -> str:
    message: str = _conditions(client.get(namespace).json)[kind]["message"]
    return message


def test_its_own_finalizers_hold_it_when_it_is_empty(cluster: TestClient) -> None:
    body = {"metadata": {"name": "own", "finalizers": ["example.com/hold"]}}
    assert cluster.post(NAMESPACES, body).status == 201
    path = f"{NAMESPACES}/own"
    cluster.delete(path)
    empty = eventually(lambda: _emptied(cluster.get(path).json))
    assert empty["status"]["phase"] == "Terminating"
    assert cluster.patch(path, {"metadata": {"finalizers": None}}, MERGE).status == 200
    assert cluster.get(path).status == 404


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_propagation_policies_apply_to_namespaces_too(cluster: TestClient, policy: str) -> None:
    """What they own beside their content is cluster-scoped."""
    namespace = _make(cluster, "owner")
    owner = cluster.get(namespace).json
    reference = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    body = {"metadata": {"name": "owned", "ownerReferences": [reference]}, "rules": []}
    assert cluster.post(roles, body).status == 201
    answer = cluster.delete(namespace, {"propagationPolicy": policy})
    assert len(answer.json["metadata"]["finalizers"]) == 1
    eventually(lambda: cluster.get(namespace).status == 404)
    owned = cluster.get(f"{roles}/owned")
    assert owned.status == (200 if policy == "Orphan" else 404)
    if policy == "Orphan":
        assert "ownerReferences" not in owned.json["metadata"]


def _emptied(namespace: Object) -> Object | None:
    return None if (namespace.get("spec") or {}).get("finalizers") else namespace


def test_a_watch_sees_it_marked_and_then_deleted(cluster: TestClient) -> None:
    namespace = _make(cluster, "watched")
    version = cluster.get(namespace).json["metadata"]["resourceVersion"]
    events = cluster.watch(
        NAMESPACES, resourceVersion=version, fieldSelector="metadata.name=watched"
    )
    cluster.delete(namespace)
    seen = []
    for event in events:
        seen.append((event["type"], event["object"]["status"]["phase"]))
        if event["type"] == "DELETED":
            break
    assert seen[0] == ("MODIFIED", "Terminating")
    assert seen[-1] == ("DELETED", "Terminating")
    events.close()


def test_a_namespace_can_be_made_again_at_once(cluster: TestClient) -> None:
    """And what is swept up after the old one does not touch the new one."""
    namespace = _make(cluster, "again")
    first = cluster.get(namespace).json["metadata"]["uid"]
    cluster.delete(namespace)
    eventually(lambda: cluster.get(namespace).status == 404)
    _make(cluster, "again")
    path = _map(cluster, namespace, "mine")
    assert cluster.get(namespace).json["metadata"]["uid"] != first
    eventually(lambda: cluster.get(f"{namespace}/serviceaccounts/default").status == 200)
    assert cluster.get(path).status == 200


def test_a_thousand_objects_go_quickly(shard: ServerProcess) -> None:
    client = make_cluster(shard, "ns-many")
    namespace = _make(client, "many")
    for number in range(1000):
        _map(client, namespace, f"m{number}")
    before = _cpu_seconds(shard.pid)
    client.delete(namespace)
    eventually(lambda: client.get(namespace).status == 404)
    spent = _cpu_seconds(shard.pid) - before
    assert spent < 1.0, f"{spent:.2f} s of CPU for 1,000 objects"


def _cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
