"""What Prometheus asks a supervisor: metrics of the installation, and the list of its processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from pykcp.observe.metrics import LabelledGauge, LabelledTotals, Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.operator.cluster.metrics import OperatorMetrics
from pykcp.programs.operator.drivers.process.state import WorkloadReport
from pykcp.programs.operator.pages import PlainPages
from pykcp.server.health import Health
from pykcp.types import Object
from pykcp.wire.listener import Listener

TARGETS = "/targets"
Reports = Callable[[], Sequence[WorkloadReport]]


class HostMonitoring:
    """Served on an address without TLS: it tells nothing that is secret."""

    def __init__(self, address: str, reports: Reports, objects: Callable[[], list[Object]]) -> None:
        """`objects`: those of the installation, with their statuses."""
        self._address, self._reports = address, reports
        metrics = Registry()
        metrics.add(*process_metrics(), *_workload_metrics(reports))
        OperatorMetrics(metrics, objects)
        self._listener = Listener(
            PlainPages(Health(), metrics, {TARGETS: lambda: scrape_targets(reports())})
        )

    async def start(self) -> None:
        host, _, port = self._address.rpartition(":")
        await self._listener.start(host.strip("[]"), int(port))

    async def stop(self) -> None:
        await self._listener.drain(1.0)


def _workload_metrics(reports: Reports) -> Iterable[LabelledGauge]:
    yield LabelledGauge(
        "kcp_up_replicas_desired",
        "Processes that each workload of this host should have.",
        ("workload",),
        lambda: [((one.name,), float(one.desired)) for one in reports()],
    )
    yield LabelledGauge(
        "kcp_up_replicas_ready",
        "Processes of each workload of this host that are ready and up to date.",
        ("workload",),
        lambda: [((one.name,), float(one.ready)) for one in reports()],
    )
    yield LabelledTotals(
        "kcp_up_restarts_total",
        "Restarts of processes that ended or did not answer, since the supervisor started.",
        ("workload",),
        lambda: [((r.name,), float(sum(one.restarts for one in r.replicas))) for r in reports()],
    )


def scrape_targets(reports: Sequence[WorkloadReport]) -> str:
    """The processes of this host, as Prometheus' HTTP service discovery reads them."""
    targets = [
        {
            "targets": [
                f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
            ],
            "labels": {
                "__scheme__": "https",
                "__metrics_path__": "/metrics",
                "component": report.component,
                "workload": report.name,
                "replica": str(one.number),
            },
        }
        for report in reports
        for one in report.replicas
        if one.port
    ]
    return json.dumps(targets)
