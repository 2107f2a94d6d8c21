"""A cluster in which nothing happens costs the controllers nothing."""

from __future__ import annotations

import re

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

SOME = {"generic-garbage-collector", "namespace-controller", "kcp-apibinding"}


def _tasks(client: TestClient) -> list[str]:
    """Names of the controllers' tasks."""
    return sorted(
        re.findall(r"^  controllers?/(\S+)", client.get("/debug/tasks").body.decode(), re.MULTILINE)
    )


def _queues(client: TestClient) -> dict[str, float]:
    pattern = r"^(?:workqueue_depth|pykcp_workqueue_running|pykcp_workqueue_delayed)\{.*$"
    lines = re.findall(pattern, client.get("/metrics").body.decode(), re.MULTILINE)
    return {line.split()[0]: float(line.split()[1]) for line in lines}


def test_a_thousand_clusters_leave_no_task_and_no_key(shard: ServerProcess) -> None:
    bare = shard.client()  # tasks and metrics are the shard's, not a logical cluster's
    eventually(lambda: "feed" not in _tasks(bare))
    controllers = _tasks(bare)
    assert set(controllers) > SOME
    for number in range(1000):
        last = make_cluster(shard, f"idle{number}")
    eventually(
        lambda: last.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").status == 200
    )
    eventually(lambda: not any(_queues(bare).values()))
    assert len(_queues(bare)) == 3 * len(controllers)
    assert _tasks(bare) == controllers
    names = set(re.findall(r'^workqueue_adds_total\{name="(.*)"\}', _metrics(bare), re.MULTILINE))
    assert names <= set(controllers)


def _metrics(client: TestClient) -> str:
    return client.get("/metrics").body.decode()
