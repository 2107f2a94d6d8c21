"""Exports of another shard: they are bound by what that shard has published in the cache."""

from __future__ import annotations

from pykcp.testing.apis import BINDINGS, RESOURCE, binding, export, schema
from pykcp.testing.binding import COWBOYS, condition, cowboy, is_bound
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import cached
from pykcp.testing.server import ServerProcess

SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
NEWER = "v2.cowboys.wild.west"


def test_bound_from_another_shard(cluster: TestClient, shard: ServerProcess) -> None:
    far = cached(shard, "faraway", "far")
    exported = {**export("cowboys", resources=[RESOURCE]), "status": {"identityHash": "abc"}}
    assert far.post(SCHEMAS, schema()).status == 201
    assert far.post(EXPORTS, exported).status == 201
    made = cluster.post(BINDINGS, binding("cowboys", "cowboys", "faraway"))
    assert made.status == 201, made
    eventually(lambda: is_bound(cluster))
    assert cluster.post(COWBOYS, cowboy()).status == 201

    assert far.post(SCHEMAS, schema(NEWER)).status == 201
    live = far.get(f"{EXPORTS}/cowboys").json
    live["spec"]["resources"] = [{**RESOURCE, "schema": NEWER}]
    assert far.put(f"{EXPORTS}/cowboys", live).status == 200
    eventually(
        lambda: (
            cluster.get(f"{BINDINGS}/cowboys").json["status"]["boundResources"][0]["schema"]["name"]
            == NEWER
        )
    )
    assert cluster.get(f"{COWBOYS}/jesse").status == 200
    assert condition(cluster, "cowboys", "APIExportValid")["status"] == "True"
