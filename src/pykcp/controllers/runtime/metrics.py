"""Numbers about controllers, under the names that dashboards for Kubernetes know.

The only label is the controller's name: nothing here grows with clusters or objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pykcp.observe.metrics import Counter, Histogram, LabelledGauge, LabelValues, Registry

_LABELS = ("name",)
_SECONDS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)


class QueueSizes(Protocol):
    """What is shown of a queue."""

    @property
    def running(self) -> int: ...

    @property
    def delayed(self) -> int: ...

    def __len__(self) -> int: ...


class ControllerMetrics:
    def __init__(self, registry: Registry) -> None:
        self._queues: list[tuple[LabelValues, QueueSizes]] = []
        self.adds = Counter("workqueue_adds_total", "Keys added to a controller's queue.", _LABELS)
        self.retries = Counter(
            "workqueue_retries_total", "Keys that failed and were requeued.", _LABELS
        )
        self.durations = Histogram(
            "workqueue_work_duration_seconds", "Processing time of a key.", _LABELS, _SECONDS
        )
        registry.add(
            self._gauge("workqueue_depth", "Keys waiting to be processed.", len),
            self._gauge(
                "pykcp_workqueue_running", "Keys being processed.", lambda queue: queue.running
            ),
            self._gauge(
                "pykcp_workqueue_delayed", "Keys scheduled for later.", lambda queue: queue.delayed
            ),
            self.adds,
            self.retries,
            self.durations,
        )

    def _gauge(self, name: str, text: str, read: Callable[[QueueSizes], int]) -> LabelledGauge:
        return LabelledGauge(
            name, text, _LABELS, lambda: [(label, read(queue)) for label, queue in self._queues]
        )

    def follow(self, name: str, queue: QueueSizes) -> LabelValues:
        """Show this queue; returns the label values to count under."""
        self._queues.append(((name,), queue))
        return (name,)
