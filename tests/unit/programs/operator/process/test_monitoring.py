"""The list of processes that Prometheus reads."""

from __future__ import annotations

import json

from pykcp.programs.operator.drivers.process.state import READY, ReplicaState, WorkloadReport
from pykcp.programs.operator.host.monitoring import scrape_targets


def _report(*replicas: ReplicaState) -> WorkloadReport:
    return WorkloadReport("alpha-shard-kcp", "shard", "Shard/alpha", "", 2, "r", replicas)


def test_every_process_with_a_port_is_a_target() -> None:
    report = _report(
        ReplicaState(0, READY, "r", True, 1, "127.0.0.1", 6444),
        ReplicaState(1, READY, "r", True, 2, "::1", 6445),
        ReplicaState(2, READY, "r", True),  # not started yet
    )
    first, second = json.loads(scrape_targets([report]))
    assert first["targets"] == ["127.0.0.1:6444"]
    assert second["targets"] == ["[::1]:6445"]
    assert first["labels"] == {
        "__scheme__": "https",
        "__metrics_path__": "/metrics",
        "component": "shard",
        "workload": "alpha-shard-kcp",
        "replica": "0",
    }
