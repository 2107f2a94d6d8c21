"""Workspaces on several shards: placed, entered, deleted, whatever stops in between."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import (
    LOGICAL_CLUSTER,
    WORKSPACES,
    inside,
    is_ready,
    make_workspace,
    post_workspace,
)
from pykcp.types import Object

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
CORDON = "experimental.core.kcp.io/unschedulable"


def on(shard: str) -> Object:
    """A spec that selects a shard."""
    return {"location": {"selector": {"matchLabels": {"name": shard}}}}


def shard_of(workspace: Object) -> str:
    found: str = workspace["metadata"]["annotations"]["core.kcp.io/shard"]
    return found


def has_cluster(shards: Fleet, shard: str, cluster: str) -> bool:
    return shards.client(shard, cluster).get(LOGICAL_CLUSTER).status == 200


@pytest.mark.parametrize("shard", ["root", "shard-1"])
def test_a_workspace_is_placed_where_it_asks(
    shared_fleet: Fleet, root: TestClient, shard: str
) -> None:
    workspace = make_workspace(root, f"on-{shard}", **on(shard))
    cluster = workspace["spec"]["cluster"]
    assert shard_of(workspace) == shard
    assert workspace["spec"]["URL"].endswith(f"/clusters/root:on-{shard}")
    assert workspace["metadata"]["finalizers"] == ["core.kcp.io/logicalcluster"]
    assert {c["type"]: c["status"] for c in workspace["status"]["conditions"]} == {
        "WorkspaceInitialized": "True",
        "WorkspaceScheduled": "True",
    }
    (other,) = {"root", "shard-1"} - {shard}
    assert has_cluster(shared_fleet, shard, cluster)
    assert not has_cluster(shared_fleet, other, cluster)
    within = inside(root, f"on-{shard}")
    assert within.get("/api/v1/namespaces/default").status == 200
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}}
    assert within.post("/api/v1/namespaces/default/configmaps", config).status == 201
    found = within.get(LOGICAL_CLUSTER).json
    assert found["metadata"]["annotations"]["core.kcp.io/shard"] == shard


def test_a_tree_over_both_shards_is_deleted(shared_fleet: Fleet, root: TestClient) -> None:
    parent, made = root, []
    for depth in range(4):
        shard = ("shard-1", "root")[depth % 2]
        workspace = make_workspace(parent, "tree", **on(shard))
        made.append((shard, workspace["spec"]["cluster"]))
        parent = inside(parent, "tree")
    assert root.delete(f"{WORKSPACES}/tree").status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/tree").status == 404)
    for shard, cluster in made:
        assert not has_cluster(shared_fleet, shard, cluster)


def test_finalizers_in_a_workspace_on_another_shard_are_reported(
    root: TestClient,
) -> None:
    make_workspace(root, "held", **on("shard-1"))
    within = inside(root, "held")
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    }
    assert within.post("/api/v1/namespaces/default/configmaps", held).status == 201
    assert root.delete(f"{WORKSPACES}/held").status == 200

    def message() -> str | None:
        found = root.get(f"{WORKSPACES}/held").json
        for condition in found["status"]["conditions"]:
            if condition["type"] == "WorkspaceContentDeleted":
                return str(condition["message"])
        return None

    assert "example.com/held in 1 resource instances" in str(eventually(message))
    path = "/api/v1/namespaces/default/configmaps/held"
    assert within.patch(path, {"metadata": {"finalizers": None}}).status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/held").status == 404)


def test_a_cordoned_shard_gets_no_workspaces(root: TestClient) -> None:
    cordon: Any = {"metadata": {"annotations": {CORDON: "true"}}}
    assert root.patch(f"{SHARDS}/shard-1", cordon).status == 200
    placed = {shard_of(make_workspace(root, f"cordon{n}")) for n in range(6)}
    assert placed == {"root"}
    post_workspace(root, "cordoned", **on("shard-1"))

    def is_unschedulable() -> Object | None:
        status: Object = root.get(f"{WORKSPACES}/cordoned").json["status"]
        reasons = [c.get("reason") for c in status.get("conditions") or ()]
        return status if "Unschedulable" in reasons else None

    eventually(is_unschedulable)
    lifted: Any = {"metadata": {"annotations": {CORDON: None}}}
    assert root.patch(f"{SHARDS}/shard-1", lifted).status == 200
    assert shard_of(eventually(is_ready(root, "cordoned"))) == "shard-1"


def test_a_workspace_is_reached_as_soon_as_it_is_ready(root: TestClient) -> None:
    """By its path and by its name, also if it was asked for before it was there."""
    version = root.get(WORKSPACES).json["metadata"]["resourceVersion"]
    stream = root.watch(WORKSPACES, resourceVersion=version, timeoutSeconds=60)
    names = [f"reached{number}" for number in range(24)]
    for number, name in enumerate(names):
        if number % 3 == 0:
            assert inside(root, name).get(LOGICAL_CLUSTER).status == 403
        post_workspace(root, name, **on("shard-1" if number % 2 else "root"))
    left = set(names)
    for event in stream:
        workspace = event["object"]
        name = workspace["metadata"]["name"]
        if name in left and (workspace.get("status") or {}).get("phase") == "Ready":
            left.discard(name)
            for client in (inside(root, name), root.in_cluster(workspace["spec"]["cluster"])):
                first = client.get(LOGICAL_CLUSTER)
                assert first.status == 200, first
        if not left:
            break
    assert not left


def test_workspaces_are_spread(root: TestClient) -> None:
    placed = [shard_of(make_workspace(root, f"spread{n}")) for n in range(20)]
    assert 5 <= placed.count("root") <= 15


def test_an_orphan_is_deleted(shared_fleet: Fleet, root: TestClient) -> None:
    """A logical cluster whose Workspace does not exist, as a crash may leave it."""
    kind = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": {"name": "slow"},
        "spec": {"initializer": True},
    }
    assert root.post("/apis/tenancy.kcp.io/v1alpha1/workspacetypes", kind).status == 201
    workspace = {
        "metadata": {
            "name": "never",
            "uid": "6a5b0cf2-0000-4000-8000-000000000000",
            "annotations": {"kcp.io/cluster": "root"},
        },
        "spec": {"type": {"path": "root", "name": "slow"}},
    }
    wanted = {"workspace": workspace, "cluster": "orphan1", "path": "root:never", "shard": "root"}
    shard = shared_fleet.client("shard-1")
    path = "/services/provisioning/clusters"
    eventually(lambda: shard.post(path, wanted).status == 201)
    eventually(lambda: not has_cluster(shared_fleet, "shard-1", "orphan1"))


def test_initializers_run_on_the_shard_of_the_workspace(
    shared_fleet: Fleet, root: TestClient
) -> None:
    kind = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": {"name": "prepared"},
        "spec": {"initializer": True, "extend": {"with": [{"name": "universal", "path": "root"}]}},
    }
    types = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
    assert root.post(types, kind).status == 201

    def addresses() -> set[str]:
        status = root.get(f"{types}/prepared").json.get("status") or {}
        return {
            one["url"].partition("/services/")[0] for one in status.get("virtualWorkspaces") or ()
        }

    ports = [shared_fleet[name].member.port for name in shared_fleet.shards]
    eventually(lambda: addresses() == {f"https://127.0.0.1:{port}" for port in ports})
    chosen = {"type": {"name": "prepared", "path": "root"}, **on("shard-1")}
    post_workspace(root, "prepared", **chosen)

    def waiting() -> Object | None:
        found: Object = root.get(f"{WORKSPACES}/prepared").json
        status = found.get("status") or {}
        return found if status.get("initializers") == ["root:prepared"] else None

    cluster = eventually(waiting)["spec"]["cluster"]
    view = f"/services/initializingworkspaces/root:prepared/clusters/{cluster}{LOGICAL_CLUSTER}"
    shard = shared_fleet.client("shard-1")
    assert shard.patch(f"{view}/status", {"status": {"initializers": []}}).status == 200
    eventually(is_ready(root, "prepared"))


PROTECTION = "tenancy.pykcp.io/deletion-protection"


def test_a_protected_workspace_on_another_shard(root: TestClient) -> None:
    """Parent on one shard, child on the other, and the protected one back on the first."""
    make_workspace(root, "keeps", **on("root"))
    keeps = inside(root, "keeps")
    make_workspace(keeps, "child", **on("shard-1"))
    child = inside(keeps, "child")
    make_workspace(child, "deep", **on("root"))
    protect = {"metadata": {"annotations": {PROTECTION: "true"}}}
    assert child.patch(f"{WORKSPACES}/deep", protect).status == 200
    message = "workspace root:keeps:child:deep in it is protected from deletion"
    for client, path in ((root, f"{WORKSPACES}/keeps"), (keeps, f"{WORKSPACES}/child")):
        refused = client.delete(path)
        assert refused.status == 403
        assert message in refused.json["message"]
    assert message in root.delete(WORKSPACES, labelSelector="!nothing").json["message"]
    assert keeps.get(f"{WORKSPACES}/child").json["metadata"].get("deletionTimestamp") is None
    unprotect = {"metadata": {"annotations": {PROTECTION: None}}}
    assert child.patch(f"{WORKSPACES}/deep", unprotect).status == 200
    assert root.delete(f"{WORKSPACES}/keeps").status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/keeps").status == 404)
