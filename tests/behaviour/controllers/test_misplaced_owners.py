"""Events for objects that name an owner in another namespace."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
FAR = "/api/v1/namespaces/far/configmaps"
EVENTS = "/api/v1/namespaces/default/events?fieldSelector=reason%3DOwnerRefInvalidNamespace"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def _make(client: TestClient, path: str, name: str, *owners: Object) -> Object:
    made = client.post(path, {"metadata": {"name": name, "ownerReferences": list(owners)}})
    assert made.status == 201, made
    found: Object = made.json
    return found


def _ref(owner: Object, **more: str) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"],
        **more,
    }  # fmt: skip


def _far_owner(client: TestClient) -> Object:
    assert client.post("/api/v1/namespaces", {"metadata": {"name": "far"}}).status == 201
    return _make(client, FAR, "owner")


def _events(client: TestClient) -> list[Object]:
    found: list[Object] = client.get(EVENTS).json["items"]
    return found


def test_an_owner_of_another_namespace_is_told(cluster: TestClient) -> None:
    owner = _far_owner(cluster)
    stray = _make(cluster, MAPS, "stray", _ref(owner))
    eventually(lambda: cluster.get(f"{MAPS}/stray").status == 404)
    (event,) = eventually(lambda: _events(cluster))
    uid, where = owner["metadata"]["uid"], stray["metadata"]["annotations"]["kcp.io/cluster"]
    assert event["message"] == (
        f"ownerRef [v1/ConfigMap, cluster: {where}, namespace: default, name: owner, "
        f'uid: {uid}] does not exist in namespace "default"'
    )
    assert (event["type"], event["count"], event["eventTime"]) == ("Warning", 1, None)
    assert event["source"] == {"component": "garbage-collector-controller"}
    assert event["reportingComponent"] == "garbage-collector-controller"
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "stray", "namespace": "default",
        "uid": stray["metadata"]["uid"],
    }  # fmt: skip


def test_an_owner_is_known_by_its_uid_if_others_name_it_rightly(cluster: TestClient) -> None:
    owner = _far_owner(cluster)
    _make(cluster, FAR, "child", _ref(owner))
    _make(cluster, MAPS, "stray", _ref(owner, kind="Secret", name="wrong"))
    (event,) = eventually(lambda: _events(cluster))
    assert "[v1/Secret, " in event["message"]
    assert cluster.get(f"{FAR}/child").status == 200


def test_a_cluster_scoped_object_stays_and_is_told_once(cluster: TestClient) -> None:
    owner = _far_owner(cluster)
    body = {"metadata": {"name": "role", "ownerReferences": [_ref(owner)]}, "rules": []}
    assert cluster.post(ROLES, body).status == 201
    (event,) = eventually(lambda: _events(cluster))
    assert event["message"].endswith('does not exist in namespace ""')
    assert event["metadata"]["namespace"] == "default"
    assert cluster.patch(f"{ROLES}/role", {"metadata": {"labels": {"a": "b"}}}).status == 200
    _make(cluster, MAPS, "marker", _ref(owner))
    eventually(lambda: cluster.get(f"{MAPS}/marker").status == 404)
    told = [event["involvedObject"]["name"] for event in _events(cluster)]
    assert sorted(told) == ["marker", "role"]


def test_ordinary_collection_tells_nothing(cluster: TestClient) -> None:
    owner = _make(cluster, MAPS, "owner")
    _make(cluster, MAPS, "child", _ref(owner))
    cluster.delete(f"{MAPS}/owner")
    eventually(lambda: cluster.get(f"{MAPS}/child").status == 404)
    _make(cluster, MAPS, "late", _ref(owner))
    eventually(lambda: cluster.get(f"{MAPS}/late").status == 404)
    assert _events(cluster) == []
