"""A control plane and physical clusters, all processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.physical import physical_cluster
from pykcp.testing.multicluster.workspaces import bind_workload
from pykcp.testing.server import ServerProcess, server

TIMES = (
    "--cluster-probe-interval=500ms",
    "--cluster-heartbeat-threshold=2s",
    "--cluster-recovery=1s",
    "--cluster-deletion-grace=2s",
)


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    """A control plane with short times."""
    with server(*TIMES) as process:
        yield process


@pytest.fixture(scope="module")
def physical() -> Iterator[ServerProcess]:
    with physical_cluster() as process:
        yield process


@pytest.fixture
def workspace(cluster: TestClient) -> TestClient:
    """A logical cluster with the kinds of multi-cluster."""
    bind_workload(cluster)
    return cluster
