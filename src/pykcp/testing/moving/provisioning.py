"""Logical clusters that other shards ask for, and the limit on them, for tests."""

from __future__ import annotations

import uuid
from typing import Any

from pykcp.testing.client import TestClient
from pykcp.types import Object

CLUSTERS = "/services/provisioning/clusters"
LIMIT = "core.kcp.io/max-logical-clusters"
OWN_SHARD = "/apis/core.kcp.io/v1alpha1/shards/root"


def wanted(cluster: str, name: str = "team", **more: Any) -> Object:
    """A request of the shard of a Workspace `root:elsewhere:<name>`."""
    workspace = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid4()),
            "annotations": {
                "kcp.io/cluster": "parentcluster",
                "experimental.tenancy.kcp.io/owner": '{"username":"alice"}',
            },
        },
        "spec": {"type": {"path": "root", "name": "universal"}},
    }
    path = f"root:elsewhere:{name}"
    return {"workspace": workspace, "cluster": cluster, "path": path, "shard": "other", **more}


def clusters_here(admin: TestClient) -> int:
    """How many logical clusters of tenants a shard has; `admin`: a master there."""
    found = admin.in_cluster("*").get("/apis/core.kcp.io/v1alpha1/logicalclusters")
    assert found.status == 200, found
    names = [item["metadata"]["annotations"]["kcp.io/cluster"] for item in found.json["items"]]
    return sum(not name.startswith("system:") for name in names)
