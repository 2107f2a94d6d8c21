"""Metrics in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykcp.observe.metrics import Counter, Gauge, Histogram, LabelledGauge, Registry


def filled() -> Registry:
    registry = Registry()
    counter = Counter("requests_total", "Requests.", ("verb", "code"))
    counter.add(("get", "200"))
    counter.add(("get", "200"), 2)
    counter.add(('odd"\n\\', "500"))
    histogram = Histogram("seconds", "Durations.", ("verb",), (0.1, 1.0))
    for amount in (0.05, 0.1, 0.5, 7):
        histogram.observe(("get",), amount)
    registry.add(
        counter,
        histogram,
        Gauge("now", "A number.", lambda: 1.5),
        LabelledGauge("sizes", "Some.", ("name",), lambda: [(("a",), 1), (("b",), 2)]),
    )
    return registry


def test_exposition() -> None:
    """Sorted by name, with help and type, cumulative buckets and escaped labels."""
    assert filled().exposition().splitlines() == [
        "# HELP now A number.",
        "# TYPE now gauge",
        "now 1.5",
        "# HELP requests_total Requests.",
        "# TYPE requests_total counter",
        'requests_total{verb="get",code="200"} 3',
        'requests_total{verb="odd\\"\\n\\\\",code="500"} 1',
        "# HELP seconds Durations.",
        "# TYPE seconds histogram",
        'seconds_bucket{verb="get",le="0.1"} 2',
        'seconds_bucket{verb="get",le="1.0"} 3',
        'seconds_bucket{verb="get",le="+Inf"} 4',
        'seconds_sum{verb="get"} 7.65',
        'seconds_count{verb="get"} 4',
        "# HELP sizes Some.",
        "# TYPE sizes gauge",
        'sizes{name="a"} 1',
        'sizes{name="b"} 2',
    ]


def test_others_can_read_it() -> None:
    """The library that Prometheus gives out parses every line."""
    families = {f.name: f for f in text_string_to_metric_families(filled().exposition())}
    assert set(families) == {"now", "requests", "seconds", "sizes"}
    assert families["requests"].samples[1].labels["verb"] == 'odd"\n\\'


@pytest.mark.parametrize(
    "make", [lambda: Counter("c", "x"), lambda: Histogram("h", "x", (), (1.0,))]
)
def test_nothing_counted_is_nothing_shown(make: Callable[[], Counter]) -> None:
    """A metric without series has only its head."""
    registry = Registry()
    registry.add(make())
    assert len(registry.exposition().splitlines()) == 2
    assert registry.metrics[0].name in {"c", "h"}


def test_series_that_tenants_name_are_limited() -> None:
    """Known series go on; new ones keep what the code named and lose what others did."""
    counter = Counter(
        "c", "Text.", ("verb", "resource"), limit=2, open_labels=frozenset(("resource",))
    )
    for values in (("get", "a"), ("get", "b"), ("get", "c"), ("list", "d"), ("get", "e")):
        counter.add(values)
    counter.add(("get", "a"))
    assert counter.values == {
        ("get", "a"): 2,
        ("get", "b"): 1,
        ("get", "other"): 2,
        ("list", "other"): 1,
    }
