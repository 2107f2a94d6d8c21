"""What another shard has published counts here as if it were here."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from pykcp.testing.apis import BINDINGS, COWBOYS, EXPORTS, SCHEMAS, binding, cowboy, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import cached
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess

CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IDENTITY = hashlib.sha256(b"far").hexdigest()
RESOURCE = {
    "name": "cowboys",
    "group": "wild.west",
    "schema": "v1.cowboys.wild.west",
    "storage": {"crd": {}},
}


@pytest.fixture(scope="module")
def far(shard: ServerProcess) -> TestClient:
    """A logical cluster on the shard `beta`, as far as it is known here."""
    client = cached(shard, "far", "beta")
    mark = {"internal.kcp.io/replicate": "apis.kcp.io"}
    cluster = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": "cluster", "annotations": {"kcp.io/path": "root:org:far", **mark}},
        "status": {"phase": "Ready"},
    }
    exported = export("cowboys", resources=[RESOURCE])
    exported["status"] = {
        "identityHash": IDENTITY,
        "conditions": [{"type": "IdentityValid", "status": "True"}],
    }
    exported["metadata"]["annotations"] = {"kcp.io/path": "root:org:far"}
    role = {
        "metadata": {"name": "bind", "annotations": mark},
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "rules": [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["bind"]}],
    }
    given = {
        "metadata": {"name": "bind", "annotations": mark},
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bind"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    published: tuple[tuple[str, dict[str, Any]], ...] = (
        (CLUSTERS, cluster),
        (SCHEMAS, schema()),
        (EXPORTS, exported),
        (f"{RBAC}/clusterroles", role),
        (f"{RBAC}/clusterrolebindings", given),
    )
    for path, obj in published:
        made = client.post(path, obj)
        assert made.status == 201, made
    return client


def is_bound(client: TestClient, name: str) -> bool:
    status = client.get(f"{BINDINGS}/{name}").json.get("status") or {}
    return bool(status.get("phase") == "Bound")


@pytest.mark.parametrize("where", ["far", "root:org:far"])
@pytest.mark.usefixtures("far")
def test_exports_of_other_shards_are_bound(cluster: TestClient, where: str) -> None:
    """By the name of their logical cluster, or by its path."""
    made = cluster.post(BINDINGS, binding("cowboys", "cowboys", where))
    assert made.status == 201, made
    eventually(lambda: is_bound(cluster, "cowboys"))
    found = cluster.get(f"{BINDINGS}/cowboys").json["status"]
    assert found["apiExportClusterName"] == "far"
    assert found["boundResources"][0]["schema"]["identityHash"] == IDENTITY
    assert cluster.post(COWBOYS, cowboy("joe")).status == 201
    assert cluster.get(f"{COWBOYS}/joe").status == 200


@pytest.mark.usefixtures("far")
def test_rights_of_other_shards_count(cluster: TestClient) -> None:
    """Whether somebody may bind an export is for its own logical cluster to say."""
    for user in ("alice", "bob"):
        grant(cluster, user, "*", "apibindings", "apis.kcp.io")
    refused = cluster.with_token("bob-token").post(BINDINGS, binding("no", "cowboys", "far"))
    assert refused.status == 403
    assert "no permission to bind to export far:cowboys" in refused.json["message"]
    made = cluster.with_token("alice-token").post(BINDINGS, binding("yes", "cowboys", "far"))
    assert made.status == 201, made
    eventually(lambda: is_bound(cluster, "yes"))


def test_what_is_elsewhere_is_not_here(shard: ServerProcess, far: TestClient) -> None:
    """Its objects are not served here, whoever asks."""
    here = shard.client(cluster="far")
    assert here.get("/api/v1/namespaces").json.get("items", []) == []
    assert here.post("/api/v1/namespaces", {"metadata": {"name": "x"}}).status == 403
    assert here.with_token("alice-token").get("/api/v1/namespaces").status == 403
    assert far.get(f"{EXPORTS}/cowboys").status == 200
