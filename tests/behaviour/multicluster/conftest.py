"""A control plane and physical clusters, all processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.workspaces import bind_workload
from pykcp.testing.server import ServerProcess, server

TIMES = (
    "--cluster-probe-interval=500ms",
    "--cluster-heartbeat-threshold=2s",
    "--cluster-recovery=1s",
    "--cluster-deletion-grace=2s",
    "--syncer-image=registry.example.com/syncer:1",
)


@pytest.fixture(scope="package")
def shard() -> Iterator[ServerProcess]:
    """A control plane with short times."""
    with server(*TIMES) as process:
        yield process


@pytest.fixture(scope="package")
def physical(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    """A server like a Kubernetes cluster."""
    with own_cluster("physical", tmp_path_factory.mktemp("physical")) as found:
        yield found


@pytest.fixture
def workspace(cluster: TestClient) -> TestClient:
    """A logical cluster with the kinds of multi-cluster."""
    bind_workload(cluster)
    return cluster
