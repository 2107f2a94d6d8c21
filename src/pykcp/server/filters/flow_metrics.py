"""Metrics of flow control, with upstream's names; labels contain the level, never the user."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterator, Sequence

from pykcp.observe.metrics import (
    Counter,
    Histogram,
    LabelledGauge,
    LabelledTotals,
    LabelValues,
    Registry,
)
from pykcp.server.filters.flow_queue import FairQueue

_NAME = "apiserver_flowcontrol_"
_BOUNDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LABELS = ("priority_level", "flow_schema")


class PriorityLevel:
    """Requests that share seats."""

    __slots__ = ("is_timed", "label", "name", "queue")

    def __init__(self, name: str, queue: FairQueue, *, is_timed: bool = False) -> None:
        self.name, self.label = name, (name, name)
        self.queue = queue
        self.is_timed = is_timed
        """Seats are taken back after a while."""


class FlowMetrics:
    def __init__(
        self,
        registry: Registry,
        levels: Sequence[PriorityLevel],
        held: tuple[LabelValues, Callable[[], int]],
        costs: Callable[[], Count[str]],
    ) -> None:
        self.dispatched = Counter(
            _NAME + "dispatched_requests_total", "Requests that were assigned a seat.", _LABELS
        )
        self.rejected = Counter(
            _NAME + "rejected_requests_total",
            "Requests rejected with 429, by reason.",
            (*_LABELS, "reason"),
        )
        self.waits = Histogram(
            _NAME + "request_wait_duration_seconds",
            "Time that requests waited for a seat or were deferred, if they had to wait.",
            (*_LABELS, "execute"),
            _BOUNDS,
        )
        registry.add(self.dispatched, self.rejected, self.waits)
        _add_gauges(registry, levels, held, costs)

    def waited(self, label: LabelValues, has_seat: bool, seconds: float) -> None:
        self.waits.observe((*label, "true" if has_seat else "false"), seconds)


def _add_gauges(
    registry: Registry,
    levels: Sequence[PriorityLevel],
    held: tuple[LabelValues, Callable[[], int]],
    costs: Callable[[], Count[str]],
) -> None:
    def executing() -> Iterator[tuple[LabelValues, float]]:
        return ((level.label, float(level.queue.running)) for level in levels)

    def queued() -> Iterator[tuple[LabelValues, float]]:
        yield from ((level.label, float(level.queue.queued)) for level in levels)
        yield held[0], float(held[1]())

    def seats() -> Iterator[tuple[LabelValues, float]]:
        return ((level.label[:1], float(level.queue.limits.seats)) for level in levels)

    def spent() -> Iterator[tuple[LabelValues, float]]:
        return (((sort,), seconds) for sort, seconds in costs().items())

    registry.add(
        LabelledGauge(
            _NAME + "current_executing_requests",
            "Requests currently executing.",
            _LABELS,
            executing,
        ),
        LabelledGauge(
            _NAME + "current_inqueue_requests",
            "Requests waiting for a seat or deferred.",
            _LABELS,
            queued,
        ),
        LabelledGauge(_NAME + "nominal_limit_seats", "Total number of seats.", _LABELS[:1], seats),
        LabelledTotals(
            "pykcp_flowcontrol_cost_seconds_total",
            "Time on the event loop used by requests, by type of caller.",
            ("caller",),
            spent,
        ),
    )
