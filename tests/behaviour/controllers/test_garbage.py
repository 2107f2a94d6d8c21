"""Garbage collection on a real server: owners, dependents and the three propagation policies."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def _map(client: TestClient, name: str, *owners: Object, path: str = MAPS, **more: Any) -> Object:
    metadata = {"name": name, "ownerReferences": list(owners), **more}
    made = client.post(path, {"metadata": metadata})
    assert made.status == 201, made
    found: Object = made.json
    return found


def _ref(owner: Object, **more: Any) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }


def _gone(client: TestClient, name: str, path: str = MAPS) -> bool:
    return client.get(f"{path}/{name}").status == 404


def test_background_is_the_default(cluster: TestClient) -> None:
    """The owner goes at once, its dependents and theirs afterwards."""
    owner = _map(cluster, "owner")
    child = _map(cluster, "child", _ref(owner))
    _map(cluster, "grandchild", _ref(child))
    _map(cluster, "bystander")
    assert cluster.delete(f"{MAPS}/owner").status == 200
    assert _gone(cluster, "owner")
    eventually(lambda: _gone(cluster, "child") and _gone(cluster, "grandchild"))
    assert not _gone(cluster, "bystander")


def test_foreground_waits_for_those_that_block(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    _map(cluster, "blocks", _ref(owner, blockOwnerDeletion=True), finalizers=["test.io/hold"])
    _map(cluster, "other", _ref(owner, blockOwnerDeletion=True))
    answer = cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert answer.status == 200
    assert answer.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: _gone(cluster, "other"))
    assert cluster.get(f"{MAPS}/blocks").json["metadata"]["deletionTimestamp"]
    assert cluster.get(f"{MAPS}/owner").json["metadata"]["deletionTimestamp"]
    cluster.patch(f"{MAPS}/blocks", {"metadata": {"finalizers": None}}, MERGE)
    eventually(lambda: _gone(cluster, "owner"))
    assert _gone(cluster, "blocks")


def test_foreground_does_not_wait_for_those_that_do_not_block(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    _map(cluster, "stays", _ref(owner), finalizers=["test.io/hold"])
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    eventually(lambda: _gone(cluster, "owner"))
    eventually(lambda: cluster.get(f"{MAPS}/stays").json["metadata"].get("deletionTimestamp"))


def test_foreground_goes_down_the_whole_tree_first(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    child = _map(cluster, "child", _ref(owner, blockOwnerDeletion=True))
    _map(cluster, "leaf", _ref(child, blockOwnerDeletion=True))
    version = cluster.get(MAPS).json["metadata"]["resourceVersion"]
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    order = []
    events = cluster.watch(MAPS, resourceVersion=version)
    for event in events:
        if event["type"] == "DELETED":
            order.append(event["object"]["metadata"]["name"])
            if order[-1] == "owner":
                break
    events.close()
    assert order == ["leaf", "child", "owner"]


def test_an_owner_is_released_when_the_reference_stops_blocking(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    blocking = _ref(owner, blockOwnerDeletion=True)
    _map(cluster, "blocks", blocking, finalizers=["test.io/hold"])
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    eventually(lambda: cluster.get(f"{MAPS}/blocks").json["metadata"].get("deletionTimestamp"))
    assert not _gone(cluster, "owner")
    cluster.patch(f"{MAPS}/blocks", {"metadata": {"ownerReferences": None}}, MERGE)
    eventually(lambda: _gone(cluster, "owner"))
    assert not _gone(cluster, "blocks")


def test_a_circle_in_the_foreground_ends(cluster: TestClient) -> None:
    first = _map(cluster, "first")
    second = _map(cluster, "second", _ref(first, blockOwnerDeletion=True))
    back = {"metadata": {"ownerReferences": [_ref(second, blockOwnerDeletion=True)]}}
    assert cluster.patch(f"{MAPS}/first", back, MERGE).status == 200
    cluster.delete(f"{MAPS}/first", {"propagationPolicy": "Foreground"})
    eventually(lambda: _gone(cluster, "first") and _gone(cluster, "second"))


def test_orphans_stay_and_forget_their_owner(cluster: TestClient) -> None:
    owner, other = _map(cluster, "owner"), _map(cluster, "other")
    _map(cluster, "orphan", _ref(owner))
    _map(cluster, "half", _ref(owner), _ref(other))
    answer = cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    assert answer.json["metadata"]["finalizers"] == ["orphan"]
    eventually(lambda: _gone(cluster, "owner"))
    assert "ownerReferences" not in cluster.get(f"{MAPS}/orphan").json["metadata"]
    left = cluster.get(f"{MAPS}/half").json["metadata"]["ownerReferences"]
    assert [r["name"] for r in left] == ["other"]


def test_an_object_with_another_owner_stays_and_loses_the_reference(cluster: TestClient) -> None:
    one, two = _map(cluster, "one"), _map(cluster, "two")
    _map(cluster, "shared", _ref(one), _ref(two))
    cluster.delete(f"{MAPS}/one")
    refs = eventually(
        lambda: _single(cluster.get(f"{MAPS}/shared").json["metadata"]["ownerReferences"])
    )
    assert refs[0]["name"] == "two"
    cluster.delete(f"{MAPS}/two")
    eventually(lambda: _gone(cluster, "shared"))


def _single(references: list[Object]) -> list[Object] | None:
    return references if len(references) == 1 else None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": "11111111-1111-4111-8111-111111111111"}, id="another-uid"),
        pytest.param({"name": "nobody"}, id="another-name"),
    ],
)
def test_an_object_made_with_an_absent_owner_goes(cluster: TestClient, change: Object) -> None:
    owner = _map(cluster, "owner")
    _map(cluster, "stray", {**_ref(owner), **change})
    eventually(lambda: _gone(cluster, "stray"))
    assert not _gone(cluster, "owner")


def test_a_reference_to_an_absent_owner_added_later_counts(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    _map(cluster, "item", _ref(owner))
    dead = {**_ref(owner), "name": "nobody", "uid": "22222222-2222-4222-8222-222222222222"}
    patch = {"metadata": {"ownerReferences": [dead]}}
    assert cluster.patch(f"{MAPS}/item", patch, MERGE).status == 200
    eventually(lambda: _gone(cluster, "item"))


def test_a_reference_that_comes_back_after_its_owner_went_counts(cluster: TestClient) -> None:
    """The collector found this very reference in order once; it must look again."""
    owner = _map(cluster, "owner")
    _map(cluster, "item", _ref(owner))
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    eventually(lambda: _gone(cluster, "owner"))
    patch = {"metadata": {"ownerReferences": [_ref(owner)]}}
    assert cluster.patch(f"{MAPS}/item", patch, MERGE).status == 200
    eventually(lambda: _gone(cluster, "item"))


def test_owners_of_other_scopes(cluster: TestClient) -> None:
    """A cluster-scoped owner will do; one in another namespace counts as absent."""
    role = cluster.post(ROLES, {"metadata": {"name": "owner"}, "rules": []}).json
    _map(cluster, "of-role", _ref(role))
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    far = _map(cluster, "far", path="/api/v1/namespaces/elsewhere/configmaps")
    _map(cluster, "of-far", _ref(far))
    eventually(lambda: _gone(cluster, "of-far"))
    assert not _gone(cluster, "of-role")
    cluster.delete(f"{ROLES}/owner")
    eventually(lambda: _gone(cluster, "of-role"))


def test_a_cluster_scoped_object_is_not_judged_by_a_namespaced_owner(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    body = {"metadata": {"name": "role", "ownerReferences": [_ref(owner)]}, "rules": []}
    assert cluster.post(ROLES, body).status == 201
    _map(cluster, "marker", _ref(owner))
    cluster.delete(f"{MAPS}/owner")
    eventually(lambda: _gone(cluster, "marker"))
    assert not _gone(cluster, "role", ROLES)


def test_owners_are_never_found_in_other_clusters(shard: ServerProcess) -> None:
    """The same name and even the same uid elsewhere mean nothing, in either direction."""
    here, there = make_cluster(shard, "gc-here"), make_cluster(shard, "gc-there")
    owner = _map(here, "owner")
    _map(there, "owner")
    _map(there, "stray", _ref(owner))
    _map(here, "kept", _ref(owner))
    eventually(lambda: _gone(there, "stray"))
    there.delete(f"{MAPS}/owner")
    own = _map(there, "own")
    _map(there, "marker", _ref(own))
    there.delete(f"{MAPS}/own")
    eventually(lambda: _gone(there, "marker"))
    assert not _gone(here, "kept")


def test_many_dependents_go_before_their_owner(cluster: TestClient) -> None:
    owner = _map(cluster, "owner")
    for number in range(500):
        _map(cluster, f"d{number}", _ref(owner, blockOwnerDeletion=True))
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    eventually(lambda: _gone(cluster, "owner"), 5)
    assert [m["metadata"]["name"] for m in cluster.get(MAPS).json["items"]] == ["kube-root-ca.crt"]
