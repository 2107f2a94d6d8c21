"""What a workspace holds, in objects and bytes."""

from __future__ import annotations

import json
from collections.abc import Callable

from pykcp.testing.client import TestClient, eventually

USAGES = "/apis/usage.pykcp.dev/v1alpha1/resourceusages"
MAPS = "/api/v1/namespaces/default/configmaps"


def held(at: Callable[..., TestClient], cluster: TestClient) -> dict[str, tuple[int, int]]:
    name = cluster.prefix.rpartition("/")[2]
    found = at(f"/services/usage/clusters/{name}").get(USAGES)
    assert found.status == 200, found
    assert found.json["kind"] == "ResourceUsageList"
    items = found.json["items"]
    return {i["metadata"]["name"]: (i["status"]["objects"], i["status"]["bytes"]) for i in items}


def test_objects_and_bytes(at: Callable[..., TestClient], cluster: TestClient) -> None:
    eventually(lambda: "configmaps" in held(at, cluster))  # the server's own comes a moment later
    before = held(at, cluster)["configmaps"]
    for number in range(3):
        made = cluster.post(
            MAPS, {"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 1000}}
        )
        assert made.status == 201, made
    objects, size = held(at, cluster)["configmaps"]
    assert objects - before[0] == 3
    content = sum(
        len(json.dumps(cluster.get(f"{MAPS}/m{n}").json, separators=(",", ":"))) for n in range(3)
    )
    assert 0.8 * content < size - before[1] < 1.2 * content


def test_pages_are_added_up(at: Callable[..., TestClient], cluster: TestClient) -> None:
    for number in range(6):
        data = {"text": "x" * 400_000}
        made = cluster.post(MAPS, {"metadata": {"name": f"large{number}"}, "data": data})
        assert made.status == 201, made
    objects, size = held(at, cluster)["configmaps"]
    assert objects >= 6
    assert size > 2_400_000


def test_it_needs_permission(at: Callable[..., TestClient], cluster: TestClient) -> None:
    name = cluster.prefix.rpartition("/")[2]
    refused = at(f"/services/usage/clusters/{name}", "alice").get(USAGES)
    missing = at("/services/usage/clusters/root:no:such", "alice").get(USAGES)
    assert refused.status == missing.status == 403
    assert refused.body == missing.body


def test_shards_are_listed_in_root(at: Callable[..., TestClient], cluster: TestClient) -> None:
    path = USAGES.replace("resourceusages", "shardusages")
    found = at("/services/usage/clusters/root").get(path)
    assert found.status == 200, found
    assert [item["metadata"]["name"] for item in found.json["items"]] == ["root"]
    name = cluster.prefix.rpartition("/")[2]
    assert at(f"/services/usage/clusters/{name}").get(path).status == 404
    assert at("/services/usage/clusters/root", "alice").get(path).status == 403
