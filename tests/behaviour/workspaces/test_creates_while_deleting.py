"""Creates in a workspace that is being deleted are answered as kcp answers them.

It has no rule for the workspace as a whole: what is created goes with the rest. Only namespaces
that terminate take nothing more, and once the workspace is gone there is nowhere to create in.
"""

from __future__ import annotations

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, inside, make_workspace
from pykcp.types import Object

MAPS = "/api/v1/namespaces/{}/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def config_map(name: str, **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


@pytest.fixture
def held(root: TestClient) -> TestClient:
    """Inside a workspace that is being deleted, and held by a finalizer."""
    make_workspace(root, "held")
    client = inside(root, "held")
    made = client.post(MAPS.format("default"), config_map("held", finalizers=["a.b/c"]))
    assert made.status == 201, made
    assert root.delete(f"{WORKSPACES}/held").status == 200

    def is_terminating() -> bool:
        default = client.get("/api/v1/namespaces/default").json
        phase = client.get(LOGICAL_CLUSTER).json["status"]["phase"]
        return bool(default["metadata"].get("deletionTimestamp") and phase == "Deleting")

    eventually(is_terminating)
    return client


def test_creates_go_with_the_workspace(
    shard: ServerProcess, root: TestClient, held: TestClient
) -> None:
    refused = held.post(MAPS.format("default"), config_map("more"))
    assert refused.status == 403
    assert refused.json["message"] == (
        'configmaps "more" is forbidden: unable to create new content in namespace default '
        "because it is being terminated"
    )
    assert held.post(ROLES, {"metadata": {"name": "more"}}).status == 201
    assert held.post("/api/v1/namespaces", {"metadata": {"name": "more"}}).status == 201
    assert held.post(MAPS.format("more"), config_map("more")).status == 201
    name = held.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]

    release = held.patch(MAPS.format("default") + "/held", {"metadata": {"finalizers": None}})
    assert release.status == 200, release
    eventually(lambda: root.get(f"{WORKSPACES}/held").status == 404)
    assert held.post(ROLES, {"metadata": {"name": "late"}}).status == 404
    stranger = shard.client(cluster=name).with_token("alice-token")
    assert stranger.post(ROLES, {"metadata": {"name": "late"}}).status == 403
    # nothing of it is left
    rest = shard.client(cluster="*").get(ROLES).json["items"]
    assert not [role for role in rest if role["metadata"]["name"] in ("more", "late")]
