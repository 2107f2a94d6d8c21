"""Metrics that every program has: its tasks and its caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykcp import caching
from pykcp.aio import owner
from pykcp.observe.metrics import Gauge, LabelledGauge, LabelledTotals, LabelValues, Metric

Numbers = Callable[[], Iterable[tuple[LabelValues, float]]]


def process_metrics() -> tuple[Metric, ...]:
    """Read when they are asked for: nothing is added to what they count."""
    return (
        LabelledTotals(
            "pykcp_task_restarts_total",
            "Restarts of background tasks that failed, by task.",
            ("task",),
            lambda: (((name,), count) for name, count in owner.restarts().items()),
        ),
        Gauge(
            "pykcp_tasks_failing",
            "Background tasks that keep failing; the tasks check of /readyz names them.",
            lambda: sum(len(each.failing()) for each in owner.owners()),
        ),
        LabelledTotals(
            "pykcp_cache_hits_total", "Lookups that a cache answered, by cache.",
            ("cache",), _of_caches("hits"),
        ),
        LabelledTotals(
            "pykcp_cache_misses_total", "Lookups that a cache could not answer, by cache.",
            ("cache",), _of_caches("misses"),
        ),
        LabelledTotals(
            "pykcp_cache_evictions_total", "Entries that a cache evicted to stay within its limit.",
            ("cache",), _of_caches("evictions"),
        ),
        LabelledGauge(
            "pykcp_cache_entries", "Entries that a cache holds, by cache.",
            ("cache",), _of_caches("entries"),
        ),
    )  # fmt: skip


def _of_caches(what: str) -> Numbers:
    return lambda: (((name,), getattr(each, what)) for name, each in caching.totals().items())
