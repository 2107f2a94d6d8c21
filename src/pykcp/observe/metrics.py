"""Counters, gauges and histograms in Prometheus' text format.

The number of series is bounded: label values are chosen by code, never by clients or workspaces.
Resource names are chosen in workspaces, so that a counter with such a label has a limit. An update
is a dictionary lookup and an addition, because every request makes several.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable

LabelValues = tuple[str, ...]
OTHER = "other"


class Counter:
    """A number that only grows, per combination of label values."""

    kind = "counter"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...] = (),
        *,
        limit: int = 0,
        open_labels: frozenset[str] = frozenset(),
    ) -> None:
        """`limit`: when there are so many series, the values of `open_labels` in new ones are
        lumped together as "other"; 0: no limit.
        """
        self.name, self.help, self.labels = name, help_text, labels
        self.values: dict[LabelValues, float] = {}
        self._limit, self._open = limit, open_labels

    def add(self, values: LabelValues = (), amount: float = 1) -> None:
        if values not in self.values and self._limit and len(self.values) >= self._limit:
            values = tuple(
                OTHER if label in self._open else value
                for label, value in zip(self.labels, values, strict=True)
            )
        self.values[values] = self.values.get(values, 0) + amount

    def lines(self) -> Iterable[str]:
        for values, number in self.values.items():
            yield f"{self.name}{_labels(self.labels, values)} {_number(number)}"


class Gauge:
    """A number read when it is asked for."""

    kind = "gauge"

    def __init__(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        self.name, self.help = name, help_text
        self._read = read

    def lines(self) -> Iterable[str]:
        yield f"{self.name} {_number(self._read())}"


class LabelledGauge:
    """Several numbers under one name, read when they are asked for."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[tuple[LabelValues, float]]],
    ) -> None:
        self.name, self.help, self.labels = name, help_text, labels
        self._read = read

    def lines(self) -> Iterable[str]:
        for values, number in self._read():
            yield f"{self.name}{_labels(self.labels, values)} {_number(number)}"


class LabelledTotals(LabelledGauge):
    """Several numbers that only grow, read when they are asked for."""

    kind = "counter"


class Histogram:
    """How values are distributed over buckets."""

    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        self.name, self.help, self.labels, self.bounds = name, help_text, labels, bounds
        self._series: dict[LabelValues, list[float]] = {}

    def observe(self, values: LabelValues, amount: float) -> None:
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = [0.0] * (len(self.bounds) + 2)
        series[bisect_left(self.bounds, amount)] += 1
        series[-1] += amount

    def lines(self) -> Iterable[str]:
        names = (*self.labels, "le")
        for values, series in self._series.items():
            running = 0.0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), series, strict=False):
                running += count
                yield f"{self.name}_bucket{_labels(names, (*values, bound))} {_number(running)}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {series[-1]}"
            yield f"{self.name}_count{_labels(self.labels, values)} {_number(running)}"


Metric = Counter | Gauge | LabelledGauge | Histogram


class Registry:
    """All metrics of a process."""

    def __init__(self) -> None:
        self._metrics: list[Metric] = []
        self.gather: Callable[[str], Awaitable[str]] | None = None
        """Adds the metrics of other processes to the exposition; None: there are none."""

    def add(self, *metrics: Metric) -> None:
        self._metrics += metrics

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(self._metrics)

    def exposition(self) -> str:
        out: list[str] = []
        for metric in sorted(self._metrics, key=lambda m: m.name):
            out.append(f"# HELP {metric.name} {metric.help}")
            out.append(f"# TYPE {metric.name} {metric.kind}")
            out.extend(metric.lines())
        return "\n".join(out) + "\n"


def _labels(names: tuple[str, ...], values: LabelValues) -> str:
    if not names:
        return ""
    inner = ",".join(f'{n}="{_escape(v)}"' for n, v in zip(names, values, strict=True))
    return "{" + inner + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
