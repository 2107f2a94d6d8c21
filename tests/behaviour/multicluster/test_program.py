"""The program `cluster-controller` beside a server that does not run its controllers."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    NEGOTIATED,
    bind_workload,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.testing.server import ServerProcess, environment, server

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server("--cluster-controllers=false") as process:
        yield process


def test_it_does_the_same_from_outside(
    shard: ServerProcess, physical: PhysicalCluster, tmp_path: pathlib.Path
) -> None:
    workspace: TestClient = make_cluster(shard, "tenant")
    bind_workload(workspace)
    obj = cluster_object(
        "east", kubeconfig=physical.kubeconfig_text(), syncResources=["deployments.apps"]
    )
    assert workspace.post(CLUSTERS, obj).status == 201
    log = tmp_path / "log"
    words = [
        sys.executable, "-m", "pykcp.cli.cluster_controller", f"--kubeconfig={shard.kubeconfig}",
        "--context=shard-base", "--push-mode", "--cluster-probe-interval=500ms",
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
        assert workspace.delete(f"{CLUSTERS}/east").status == 200
        eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


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
