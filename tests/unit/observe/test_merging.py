"""The metrics of several processes in one text."""

from __future__ import annotations

from pykcp.observe.merging import labelled, merged
from pykcp.observe.metrics import Counter, Gauge, Histogram, Registry


def test_a_sample_gets_one_more_label() -> None:
    assert labelled("up 1", "writer") == 'up{process="writer"} 1'
    assert labelled('up{code="200"} 2.5', "follower-1") == 'up{process="follower-1",code="200"} 2.5'
    assert labelled('up{path="a b{c"} 1', "x") == 'up{process="x",path="a b{c"} 1'


def test_families_stay_together() -> None:
    requests = Counter("requests_total", "Requests.", ("code",))
    requests.add(("200",))
    took = Histogram("took_seconds", "Time.", (), (1.0,))
    took.observe((), 0.5)
    first, second = Registry(), Registry()
    first.add(requests, Gauge("only_first", "Here.", lambda: 1))
    second.add(requests, took)
    text = merged([("writer", first.exposition()), ("follower-1", second.exposition())])
    assert text.splitlines() == [
        "# HELP only_first Here.",
        "# TYPE only_first gauge",
        'only_first{process="writer"} 1',
        "# HELP requests_total Requests.",
        "# TYPE requests_total counter",
        'requests_total{process="writer",code="200"} 1',
        'requests_total{process="follower-1",code="200"} 1',
        "# HELP took_seconds Time.",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{process="follower-1",le="1.0"} 1',
        'took_seconds_bucket{process="follower-1",le="+Inf"} 1',
        'took_seconds_sum{process="follower-1"} 0.5',
        'took_seconds_count{process="follower-1"} 1',
    ]
