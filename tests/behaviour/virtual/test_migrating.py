"""migratingworkspaces: a logical cluster, page by page, for the shard that takes it over."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

DUMPS = "/apis/migration.kcp.io/v1alpha1/logicalclusterdumps"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
DUMP = {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterDump"}


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens: pathlib.Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text(
        "peer-token,peer,p,system:kcp:external-logical-cluster-admin\nbob-token,bob,b\n"
    )
    flags = (f"--token-auth-file={tokens}", "--feature-gates=LogicalClusterMigration=true")
    with server(*flags) as process:
        yield process


def view(shard: ServerProcess, cluster: str, token: str = "peer-token") -> TestClient:
    client = shard.client()
    if token:
        client = client.with_token(token)
    client.prefix = f"/services/migratingworkspaces/clusters/{cluster}"
    return client


def test_pages(shard: ServerProcess) -> None:
    cluster = make_cluster(shard, "moving")
    for number in range(5):
        made = cluster.post(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"m{number}"}}
        )
        assert made.status == 201
    refused = view(shard, "moving").post(DUMPS, DUMP)
    assert (refused.status, refused.json["reason"]) == (404, "NotFound")
    mark = {"metadata": {"annotations": {"internal.kcp.io/migrating": "m"}}}
    assert cluster.patch(CLUSTER, mark).status == 200
    whole = view(shard, "moving").post(DUMPS, DUMP)
    assert whole.status == 201, whole
    entries = whole.json["status"]["entries"]
    assert all(entry["key"].split("/")[2] == "moving" for entry in entries)
    names = {json.loads(base64.b64decode(entry["value"]))["metadata"]["name"] for entry in entries}
    assert {"cluster", "default", "m0", "m4"} <= names
    paged, token = [], ""
    while True:
        spec = {"limit": 2, **({"continue": token} if token else {})}
        status = view(shard, "moving").post(DUMPS, {**DUMP, "spec": spec}).json["status"]
        assert len(status["entries"]) <= 2
        paged += status["entries"]
        token = status.get("continue", "")
        if not token:
            break
    assert paged == entries
    tiny = view(shard, "moving").post(DUMPS, {**DUMP, "spec": {"maxBytes": 1}}).json["status"]
    assert len(tiny["entries"]) == 1


def test_only_shards(shard: ServerProcess) -> None:
    refused = view(shard, "root", "bob-token").post(DUMPS, DUMP)
    assert refused.status == 403
    assert refused.json["message"].endswith(
        "user is not in group system:kcp:external-logical-cluster-admin"
    )
    assert view(shard, "root", "").post(DUMPS, DUMP).status == 403
    assert view(shard, "root").get("/api/v1/configmaps").status == 404
    assert view(shard, "root").get(DUMPS).status == 405
    assert view(shard, "*").post(DUMPS, DUMP).status == 403
