"""`/services/provisioning`: what shards ask of each other, and that only shards may ask."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.provisioning import CLUSTERS, LIMIT, OWN_SHARD, clusters_here, wanted
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import (
    LOGICAL_CLUSTER,
    WORKSPACES,
    is_ready,
    make_workspace,
    post_workspace,
)
from pykcp.types import Object

REPORTS = "/services/provisioning/reports"
TOKENS = "admin-token,admin,1,system:kcp:admin\nalice-token,alice,2,\n"


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A shard that knows how to reach others; there are none."""
    directory = tmp_path_factory.mktemp("shard")
    process = ServerProcess(directory / ".kcp").start()
    process.stop()
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    process.flags = (
        f"--shard-kubeconfig-file={_copy(process.kubeconfig)}",
        f"--token-auth-file={tokens}",
    )
    process.start()
    yield process
    process.stop()


def _copy(kubeconfig: pathlib.Path) -> pathlib.Path:
    copy = kubeconfig.parent / "shards.kubeconfig"
    copy.write_bytes(kubeconfig.read_bytes())
    return copy


@pytest.fixture
def admin(shard: ServerProcess) -> TestClient:
    """A member of system:masters."""
    return shard.client()


def test_a_logical_cluster_is_provisioned_whole(admin: TestClient) -> None:
    made = admin.post(CLUSTERS, wanted("provisioned1"))
    assert made.status == 201, made
    found = admin.in_cluster("provisioned1")
    cluster = found.get(LOGICAL_CLUSTER).json
    assert cluster["status"]["phase"] == "Ready"
    assert cluster["metadata"]["annotations"]["kcp.io/path"] == "root:elsewhere:team"
    assert cluster["metadata"]["annotations"]["core.kcp.io/shard"] == "root"
    assert cluster["spec"]["owner"]["cluster"] == "parentcluster"
    assert cluster["spec"]["createdBy"] == {"username": "alice"}
    assert cluster["metadata"]["uid"] == made.json["metadata"]["uid"]
    assert found.get("/api/v1/namespaces/default").status == 200
    assert found.get("/apis/tenancy.kcp.io/v1alpha1/workspaces").status == 200


def test_a_repeated_request_returns_the_same_logical_cluster(admin: TestClient) -> None:
    request = wanted("provisioned2")
    first, second = admin.post(CLUSTERS, request), admin.post(CLUSTERS, request)
    assert first.status == second.status == 201
    assert first.json["metadata"]["uid"] == second.json["metadata"]["uid"]


def test_a_name_that_another_workspace_has_is_refused(admin: TestClient) -> None:
    assert admin.post(CLUSTERS, wanted("provisioned3")).status == 201
    refused = admin.post(CLUSTERS, wanted("provisioned3"))
    assert (refused.status, refused.json["reason"]) == (409, "AlreadyExists")
    refused = admin.post(CLUSTERS, wanted("root"))
    assert (refused.status, refused.json["reason"]) == (409, "AlreadyExists")


def test_an_unknown_type_is_a_conflict(admin: TestClient) -> None:
    request = wanted("provisioned4")
    request["workspace"]["spec"]["type"] = {"path": "root:far", "name": "away"}
    refused = admin.post(CLUSTERS, request)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")


@pytest.mark.parametrize("token", ["admin-token", "alice-token", ""])
@pytest.mark.parametrize("path", [CLUSTERS, REPORTS, "/services/provisioning/", "/services/provisioning"])  # fmt: skip
def test_others_may_not_ask(shard: ServerProcess, token: str, path: str) -> None:
    client = shard.client().with_token(token)
    refused = client.post(path, wanted("stolen1"))
    assert refused.status in (401, 403), refused
    admin = shard.client()
    assert admin.in_cluster("stolen1").get(LOGICAL_CLUSTER).status == 404


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"workspace": "text", "cluster": "a", "path": "b", "shard": "c"},
        {"workspace": {}, "cluster": "a", "path": "b", "shard": "c"},
        {"workspace": {"metadata": {}}, "cluster": "a", "path": "b", "shard": "c"},
        {"workspace": {"metadata": {"uid": "1"}}, "cluster": "*", "path": "b", "shard": "c"},
        {"workspace": {"metadata": {"uid": "1"}}, "cluster": 7, "path": "b", "shard": "c"},
    ],
)
def test_malformed_requests(admin: TestClient, body: Any) -> None:
    assert admin.post(CLUSTERS, body).status == 400


def test_reports(admin: TestClient) -> None:
    root = admin.in_cluster("root")
    workspace = make_workspace(root, "reported")
    report = {
        "shard": "root",
        "parent": "root",
        "name": "reported",
        "uid": workspace["metadata"]["uid"],
        "cluster": workspace["spec"]["cluster"],
        "logicalCluster": admin.in_cluster(workspace["spec"]["cluster"]).get(LOGICAL_CLUSTER).json,
    }
    assert admin.post(REPORTS, report).json == {"known": True}
    assert admin.post(REPORTS, {**report, "uid": "another"}).json == {"known": False}
    assert admin.post(REPORTS, {**report, "cluster": "another"}).json == {"known": False}
    assert admin.post(REPORTS, {**report, "parent": "nowhere"}).status == 404
    # A shard that no longer has the logical cluster cannot take it away.
    moved = {**report, "shard": "former", "logicalCluster": None}
    assert admin.post(REPORTS, moved).json == {"known": True}
    found = root.get(f"{WORKSPACES}/reported").json
    assert found["status"]["phase"] == "Ready"
    assert found["metadata"]["resourceVersion"] == workspace["metadata"]["resourceVersion"]


def test_the_limit_of_a_shard_is_never_exceeded(admin: TestClient) -> None:
    shards = admin.in_cluster("root")
    count = clusters_here(admin)
    limit = {"metadata": {"annotations": {LIMIT: str(count + 5)}}}
    assert shards.patch(OWN_SHARD, limit).status == 200
    try:
        with ThreadPoolExecutor(16) as pool:
            made = list(pool.map(lambda n: admin.post(CLUSTERS, wanted(f"crowded{n}")), range(64)))
    finally:
        lifted = {"metadata": {"annotations": {LIMIT: None}}}
        assert shards.patch(OWN_SHARD, lifted).status == 200
    assert sorted({reply.status for reply in made}) == [201, 429]
    assert sum(reply.status == 201 for reply in made) == 5
    refused = next(reply for reply in made if reply.status == 429)
    assert refused.json["message"] == (
        f'shard "root" has reached its limit of logical clusters ({count + 5}/{count + 5})'
    )
    assert admin.post(CLUSTERS, wanted("crowdedlast")).status == 201


def test_tenants_cannot_say_where_their_workspace_is(
    admin: TestClient, shard: ServerProcess
) -> None:
    root = shard.client("root")
    chosen = {
        "core.kcp.io/shard": "other",
        "internal.tenancy.kcp.io/shard": "other",
        "internal.tenancy.kcp.io/cluster": "chosen",
    }
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": "placed", "annotations": chosen},
        "spec": {},
    }
    assert root.post(WORKSPACES, body).status == 201
    found = eventually(is_ready(root, "placed"))
    annotations = found["metadata"]["annotations"]
    assert annotations["core.kcp.io/shard"] == "root"
    assert annotations["internal.tenancy.kcp.io/cluster"] == found["spec"]["cluster"] != "chosen"
    changed = root.patch(f"{WORKSPACES}/placed", {"metadata": {"annotations": chosen}})
    assert changed.status == 200
    assert changed.json["metadata"]["annotations"] == annotations


def test_a_workspace_waits_for_room(admin: TestClient) -> None:
    root = admin.in_cluster("root")
    limit = {"metadata": {"annotations": {LIMIT: "1"}}}
    assert root.patch(OWN_SHARD, limit).status == 200
    post_workspace(root, "waiting")

    def is_unschedulable() -> Object | None:
        status = root.get(f"{WORKSPACES}/waiting").json["status"]
        reasons = [c.get("reason") for c in status.get("conditions") or ()]
        return status if "Unschedulable" in reasons else None

    status: Object = eventually(is_unschedulable)
    (condition,) = [c for c in status["conditions"] if c["type"] == "WorkspaceScheduled"]
    assert condition["message"] == "No available shards to schedule the workspace"
    assert status["phase"] == "Unavailable"
    lifted = {"metadata": {"annotations": {LIMIT: None}}}
    assert root.patch(OWN_SHARD, lifted).status == 200
    eventually(is_ready(root, "waiting"))
