"""Quota, garbage collection and namespaces know bound types as they know local ones."""

from __future__ import annotations

from pykcp.testing.apis import MAPS
from pykcp.testing.binding import COWBOYS, bind, cowboy, is_bound, offer
from pykcp.testing.client import TestClient, eventually


def _bound(cluster: TestClient, provider: TestClient) -> None:
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))


def test_quota(cluster: TestClient, provider: TestClient) -> None:
    _bound(cluster, provider)
    assert cluster.post(COWBOYS, cowboy("one")).status == 201
    path = "/api/v1/namespaces/default/resourcequotas"
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/cowboys.wild.west": "2"}}}
    assert cluster.post(path, quota).status == 201

    def used() -> str | None:
        status = cluster.get(f"{path}/q").json["status"]
        found: str | None = (status.get("used") or {}).get("count/cowboys.wild.west")
        return found

    eventually(lambda: used() == "1")
    assert cluster.post(COWBOYS, cowboy("two")).status == 201
    refused = cluster.post(COWBOYS, cowboy("three"))
    assert refused.status == 403
    assert "exceeded quota: q" in refused.json["message"]
    assert cluster.delete(f"{COWBOYS}/one").status == 200
    eventually(lambda: used() == "1")


def test_garbage(cluster: TestClient, provider: TestClient) -> None:
    """Bound objects own others, and are owned."""
    _bound(cluster, provider)
    owner = cluster.post(COWBOYS, cowboy("owner")).json
    reference = {
        "apiVersion": "wild.west/v1",
        "kind": "Cowboy",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    assert cluster.post(MAPS, owned).status == 201
    assert cluster.post(COWBOYS, cowboy("child", ownerReferences=[reference])).status == 201
    assert cluster.delete(f"{COWBOYS}/owner").status == 200
    eventually(lambda: cluster.get(f"{MAPS}/owned").status == 404)
    eventually(lambda: cluster.get(f"{COWBOYS}/child").status == 404)


def test_the_end_of_a_namespace(cluster: TestClient, provider: TestClient) -> None:
    _bound(cluster, provider)
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": "brief"}}).status == 201
    path = COWBOYS.replace("default", "brief")
    held = cowboy("held", finalizers=["example.com/hold"])
    assert cluster.post(path, held).status == 201
    assert cluster.post(path, cowboy("free")).status == 201
    assert cluster.delete("/api/v1/namespaces/brief").status == 200
    eventually(lambda: cluster.get(f"{path}/free").status == 404)
    eventually(
        lambda: any(
            "cowboys.wild.west has 1 resource instances" in c["message"]
            for c in cluster.get("/api/v1/namespaces/brief").json["status"].get("conditions", ())
        )
    )
    assert cluster.patch(f"{path}/held", {"metadata": {"finalizers": None}}).status == 200
    eventually(lambda: cluster.get("/api/v1/namespaces/brief").status == 404)
