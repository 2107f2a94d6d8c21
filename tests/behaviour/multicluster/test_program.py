"""The program `cluster-controller` beside a server that does not run its controllers."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import PhysicalCluster, write_kubeconfig
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    NEGOTIATED,
    bind_workload,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.testing.rights import RBAC
from pykcp.testing.server import ServerProcess, environment, server

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


TOKEN, USER = "controller-token", "controller"
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "reference" / "clusters.md"


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text(f"{TOKEN},{USER},{USER}-id\n")
    with server("--cluster-controllers=false", f"--token-auth-file={tokens}") as process:
        yield process


def _least_rights(
    shard: ServerProcess, workspace: TestClient, folder: pathlib.Path
) -> pathlib.Path:
    """A kubeconfig of a user with the role that the documentation shows, and no other."""
    role = yaml.safe_load(PAGE.read_text().partition("```yaml\n")[2].partition("```")[0])
    assert workspace.post(f"{RBAC}/clusterroles", role).status == 201
    binding = {
        "metadata": {"name": USER},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    assert workspace.post(f"{RBAC}/clusterrolebindings", binding).status == 201
    return write_kubeconfig(folder / "kubeconfig", replace(shard.client().access, token=TOKEN))


def test_it_does_the_same_from_outside(
    shard: ServerProcess, physical: PhysicalCluster, tmp_path: pathlib.Path
) -> None:
    workspace: TestClient = make_cluster(shard, "tenant")
    bind_workload(workspace)
    kubeconfig = _least_rights(shard, workspace, tmp_path)
    obj = cluster_object(
        "east",
        kubeconfig=physical.kubeconfig_text(),
        syncResources=["deployments.apps", "configmaps"],
    )
    assert workspace.post(CLUSTERS, obj).status == 201
    log = tmp_path / "log"
    words = [
        sys.executable, "-m", "pykcp.cli.cluster_controller", f"--kubeconfig={kubeconfig}",
        "--workspace=tenant", "--push-mode", "--cluster-probe-interval=500ms",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env=environment())
    try:
        eventually(lambda: is_ready(workspace, "east"), 30)
        name = "deployments.v1.apps"
        eventually(lambda: condition_of(workspace, NEGOTIATED, name, "Published"), 30)
        # Types are published on request only, unless a flag says otherwise.
        assert workspace.get(f"{CRDS}/deployments.apps").status == 404
        assert workspace.patch(f"{NEGOTIATED}/{name}", {"spec": {"publish": True}}).status == 200
        eventually(
            lambda: condition_of(workspace, NEGOTIATED, name, "Published").get("status") == "True"
        )
        labels = {"workloads.kcp.dev/cluster": "east"}
        config_map = {"metadata": {"name": "outside", "labels": labels}}
        assert workspace.post("/api/v1/namespaces/default/configmaps", config_map).status == 201
        eventually(lambda: "outside" in _copied(physical), 30)
        assert workspace.delete(f"{CLUSTERS}/east").status == 200
        eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
        assert "outside" not in _copied(physical)
        assert "forbidden" not in log.read_text().lower(), log.read_text()
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


def _copied(physical: PhysicalCluster) -> set[str]:
    items = physical.client.get("/api/v1/configmaps").json["items"]
    return {one["metadata"]["name"] for one in items}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--kubeconfig is required"),
        (("--kubeconfig=/nowhere",), "/nowhere"),
        (("--kubeconfig=/nowhere", "--push-mode", "--pull-mode"), "mutually exclusive"),
    ],
)
def test_what_users_get_wrong(flags: tuple[str, ...], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp.cli.cluster_controller", *flags],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
