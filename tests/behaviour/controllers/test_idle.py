"""A cluster in which nothing happens costs the controllers nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.controllers import controller_tasks, has_nothing_to_do, queues
from pykcp.testing.server import ServerProcess, server

CLUSTERS = 100
"""More than there are controllers, so that anything kept for each of them shows."""
SOME = {"generic-garbage-collector", "namespace-controller", "kcp-apibinding"}


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    """A server in which other tests have left nothing to be tried again."""
    with server() as process:
        yield process


def test_idle_clusters_leave_no_task_and_no_key(shard: ServerProcess) -> None:
    bare = shard.client()  # tasks and metrics are the shard's, not a logical cluster's
    eventually(lambda: has_nothing_to_do(bare))
    controllers = controller_tasks(bare)
    assert set(controllers) > SOME
    for number in range(CLUSTERS):
        last = make_cluster(shard, f"idle{number}")
    eventually(
        lambda: last.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").status == 200
    )
    eventually(lambda: has_nothing_to_do(bare))
    assert len(queues(bare)) == 3 * len(controllers)
    assert controller_tasks(bare) == controllers
    names = set(re.findall(r'^workqueue_adds_total\{name="(.*)"\}', _metrics(bare), re.MULTILINE))
    assert names <= set(controllers)


def _metrics(client: TestClient) -> str:
    return client.get("/metrics").body.decode()
