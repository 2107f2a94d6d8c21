"""CachedResource and CachedResourceEndpointSlice: older names of the same things."""

from __future__ import annotations

from typing import Any

from pykcp.testing.client import MERGE, TestClient

GROUP = "/apis/cache.kcp.io/v1alpha1"


def old(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def test_the_same_objects(cluster: TestClient) -> None:
    spec = {"group": "wild.west", "version": "v1", "resource": "sheriffs"}
    made = cluster.post(f"{GROUP}/cachedresources", old("CachedResource", "one", spec))
    assert made.status == 201, made
    new = cluster.get(f"{GROUP}/clustercachedresources/one").json
    assert (new["kind"], new["spec"]["resource"]) == ("ClusterCachedResource", "sheriffs")
    again = cluster.get(f"{GROUP}/cachedresources/one").json
    assert again["kind"] == "CachedResource"
    assert again["metadata"]["uid"] == new["metadata"]["uid"]
    listed = cluster.get(f"{GROUP}/cachedresources").json
    assert listed["kind"] == "CachedResourceList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["one"]
    cluster.patch(
        f"{GROUP}/cachedresources/one",
        {"spec": {"labelSelector": {"matchLabels": {"a": "b"}}}},
        MERGE,
    )
    changed = cluster.get(f"{GROUP}/clustercachedresources/one").json
    assert changed["spec"]["labelSelector"] == {"matchLabels": {"a": "b"}}
    table = cluster.get(
        f"{GROUP}/cachedresources", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    ).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Resource", "Age"]


def test_slices_call_their_resource_otherwise(cluster: TestClient) -> None:
    spec = {"cachedResource": {"name": "one"}, "partition": "eu"}
    path = f"{GROUP}/cachedresourceendpointslices"
    made = cluster.post(path, old("CachedResourceEndpointSlice", "one", spec))
    assert made.status == 201, made
    new = cluster.get(f"{GROUP}/clustercachedresourceendpointslices/one").json
    assert new["spec"] == {
        "clusterCachedResource": {"name": "one"},
        "export": {"name": "one"},
        "partition": "eu",
    }
    assert cluster.get(f"{path}/one").json["spec"]["cachedResource"] == {"name": "one"}
    refused = cluster.patch(f"{path}/one", {"spec": {"cachedResource": {"name": "two"}}}, MERGE)
    assert refused.status == 422
    assert "must not be changed" in refused.json["message"]


def test_discovery_and_openapi_know_them(cluster: TestClient) -> None:
    names = [one["name"] for one in cluster.get(GROUP).json["resources"]]
    assert names == [
        "clustercachedresources",
        "clustercachedresources/status",
        "clustercachedresourceendpointslices",
        "clustercachedresourceendpointslices/status",
        "cachedresources",
        "cachedresources/status",
        "cachedresourceendpointslices",
        "cachedresourceendpointslices/status",
    ]
    paths = cluster.get("/openapi/v3/apis/cache.kcp.io/v1alpha1").json["paths"]
    assert f"{GROUP}/cachedresources/{{name}}" in paths
