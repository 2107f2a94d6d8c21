"""Readiness of clusters over time."""

from __future__ import annotations

from pykcp.multicluster.clusters.health import (
    NO_HEARTBEAT,
    NOT_READY,
    READY,
    STATUS_UNKNOWN,
    UNREACHABLE,
    ClusterHealth,
    Readiness,
)
from pykcp.multicluster.clusters.settings import ClusterSettings

SETTINGS = ClusterSettings()
WAS_READY = Readiness("True", READY)


def health(before: Readiness | None = None, *, probes: bool = True) -> ClusterHealth:
    return ClusterHealth(SETTINGS, 0.0, before, probes=probes)


def test_a_new_cluster_is_ready_with_its_first_answer() -> None:
    one = health()
    assert one.verdict == Readiness("Unknown", STATUS_UNKNOWN)
    one.succeeded(1.0)
    assert one.verdict.is_ready


def test_a_new_cluster_says_at_once_why_it_is_not_ready() -> None:
    one = health()
    one.failed(1.0, UNREACHABLE, "connection refused")
    assert one.verdict == Readiness("Unknown", UNREACHABLE, "connection refused")
    one.succeeded(2.0)
    assert one.verdict.is_ready


def test_three_failures_in_a_row_count() -> None:
    one = health(WAS_READY)
    one.failed(1.0, NOT_READY, "etcd")
    one.failed(2.0, NOT_READY, "etcd")
    assert one.verdict.is_ready
    one.failed(3.0, NOT_READY, "etcd")
    assert one.verdict == Readiness("False", NOT_READY, "etcd")


def test_recovery_takes_a_while() -> None:
    one = health(WAS_READY)
    for now in (1.0, 2.0, 3.0):
        one.failed(now, NOT_READY, "")
    one.succeeded(10.0)
    assert not one.verdict.is_ready
    assert one.recovery_left(15.0) == 25.0
    one.succeeded(39.0)
    assert not one.verdict.is_ready
    one.succeeded(40.0)
    assert one.verdict.is_ready
    assert one.recovery_left(41.0) is None


def test_a_failure_during_recovery_begins_it_again() -> None:
    one = health(WAS_READY)
    for now in (1.0, 2.0, 3.0):
        one.failed(now, NOT_READY, "")
    one.succeeded(10.0)
    one.failed(20.0, NOT_READY, "")
    one.succeeded(30.0)
    one.succeeded(45.0)
    assert not one.verdict.is_ready
    one.succeeded(60.0)
    assert one.verdict.is_ready


def test_a_flapping_link_changes_nothing() -> None:
    one = health(WAS_READY)
    for now in range(0, 300, 10):
        one.failed(now, UNREACHABLE, "")
        one.succeeded(now + 5.0)
        assert one.verdict.is_ready


def test_silence_is_noticed_when_heartbeats_expire() -> None:
    one = health(probes=False)
    one.succeeded(10.0)
    assert one.look(20.0) == 30.0
    assert one.verdict.is_ready
    assert one.look(50.0) is None
    assert (one.verdict.status, one.verdict.reason) == ("Unknown", NO_HEARTBEAT)


def test_a_restart_of_the_control_plane_is_no_silence() -> None:
    one = health(WAS_READY, probes=False)
    assert one.look(39.0) == 1.0
    assert one.verdict.is_ready


def test_a_cluster_that_never_reported_stays_unknown() -> None:
    one = health(probes=False)
    assert one.look(1000.0) is None
    assert one.verdict.reason == STATUS_UNKNOWN


def test_after_a_restart_an_outage_is_still_one() -> None:
    one = health(Readiness("Unknown", NO_HEARTBEAT, ""), probes=False)
    one.succeeded(1.0)
    assert not one.verdict.is_ready
    one.succeeded(31.0)
    assert one.verdict.is_ready
