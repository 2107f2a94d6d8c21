"""`/services/provisioning`: what shards ask of each other, and that only shards may ask."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, make_workspace
from pykcp.types import Object

CLUSTERS, REPORTS = "/services/provisioning/clusters", "/services/provisioning/reports"
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
