"""Custom resources as owners, as dependents and as content of namespaces."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def _define(client: TestClient) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    body = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }
    made = client.post(CRDS, body)
    assert made.status == 201, made
    eventually(lambda: client.get(WIDGETS).status == 200)


def _ref(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": True,
    }


def _widget(client: TestClient, name: str, *owners: Object, path: str = WIDGETS) -> Object:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "ownerReferences": list(owners)},
    }
    made = client.post(path, body)
    assert made.status == 201, made
    found: Object = made.json
    return found


def test_custom_resources_own_and_are_owned(cluster: TestClient) -> None:
    _define(cluster)
    owner = cluster.post(MAPS, {"metadata": {"name": "owner"}}).json
    middle = _widget(cluster, "middle", _ref(owner))
    leaf = {"metadata": {"name": "leaf", "ownerReferences": [_ref(middle)]}}
    assert cluster.post(MAPS, leaf).status == 201
    cluster.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    eventually(lambda: cluster.get(f"{MAPS}/owner").status == 404)
    assert cluster.get(f"{WIDGETS}/middle").status == 404
    assert cluster.get(f"{MAPS}/leaf").status == 404


def test_an_owner_of_an_unknown_kind_is_judged_when_the_kind_comes(cluster: TestClient) -> None:
    uid = "44444444-4444-4444-8444-444444444444"
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "none", "uid": uid}
    body = {"metadata": {"name": "waits", "ownerReferences": [owner]}}
    assert cluster.post(MAPS, body).status == 201
    marker = {"metadata": {"name": "marker", "ownerReferences": [{**owner, "kind": "Secret"}]}}
    marker["metadata"]["ownerReferences"][0]["apiVersion"] = "v1"
    assert cluster.post(MAPS, marker).status == 201
    eventually(lambda: cluster.get(f"{MAPS}/marker").status == 404)
    assert cluster.get(f"{MAPS}/waits").status == 200
    _define(cluster)
    eventually(lambda: cluster.get(f"{MAPS}/waits").status == 404)


def test_custom_resources_go_with_their_namespace(cluster: TestClient) -> None:
    _define(cluster)
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": "gone"}}).status == 201
    path = "/apis/example.com/v1/namespaces/gone/widgets"
    _widget(cluster, "w", path=path)
    _widget(cluster, "w")
    cluster.delete("/api/v1/namespaces/gone")
    eventually(lambda: cluster.get("/api/v1/namespaces/gone").status == 404)
    assert cluster.get(path).json["items"] == []
    assert cluster.get(f"{WIDGETS}/w").status == 200
