"""What the results of probes mean, with the numbers of shards and proxies."""

from __future__ import annotations

from pykcp.programs.operator.compiled import PROXY_PROBES, SHARD_PROBES, Probes
from pykcp.programs.operator.drivers.process.health import (
    LIVENESS,
    READINESS,
    STARTUP,
    ReplicaHealth,
)


def _kinds(health: ReplicaHealth, now: float) -> list[str]:
    return [kind for kind, _ in health.due(now)]


def test_a_shard_is_asked_at_once_and_often_until_it_is_ready() -> None:
    health = ReplicaHealth(SHARD_PROBES, 100.0)
    assert _kinds(health, 100.0) == [STARTUP]
    health.note(STARTUP, "refused", 100.0)
    assert not health.is_ready
    assert health.problem == "refused"
    wait = health.wait(100.0)
    assert wait is not None
    assert 0 < wait <= 0.1
    health.note(STARTUP, "", 100.5)
    assert health.is_ready
    assert health.problem == ""
    assert health.wait(100.5) == 9.5  # the delay of liveness comes before the period of readiness


def test_a_start_has_300_seconds_after_its_delay() -> None:
    health = ReplicaHealth(SHARD_PROBES, 0.0)
    health.note(STARTUP, "refused", 309.0)
    assert health.restart_reason == ""
    health.note(STARTUP, "refused", 310.0)
    assert health.restart_reason == "not started after 310 s: refused"


def test_six_failures_of_liveness_restart_a_shard() -> None:
    health = ReplicaHealth(SHARD_PROBES, 0.0)
    health.note(STARTUP, "", 1.0)
    for number in range(5):
        health.note(LIVENESS, "no answer", 10.0 * number)
    assert health.restart_reason == ""
    health.note(LIVENESS, "", 60.0)  # a success ends the row
    for number in range(6):
        health.note(LIVENESS, "no answer", 70 + 10.0 * number)
    assert health.restart_reason == "liveness probe failed 6 times: no answer"


def test_readiness_is_lost_after_several_failures_and_returns_with_one_success() -> None:
    health = ReplicaHealth(PROXY_PROBES, 0.0)
    assert _kinds(health, 0.0) == [READINESS]
    health.note(READINESS, "", 1.0)
    for number in range(2):
        health.note(READINESS, "503", 11.0 + 10 * number)
    assert health.is_ready
    health.note(READINESS, "503", 31.0)
    assert not health.is_ready
    assert health.problem == "503"
    health.note(READINESS, "", 32.0)
    assert health.is_ready


def test_the_liveness_of_a_proxy_does_not_count_before_its_delay() -> None:
    health = ReplicaHealth(PROXY_PROBES, 0.0)
    assert LIVENESS not in _kinds(health, 14.9)
    assert LIVENESS in _kinds(health, 15.0)


def test_a_program_without_probes_is_ready_when_it_runs() -> None:
    health = ReplicaHealth(Probes(), 0.0)
    assert health.is_ready
    assert health.wait(5.0) is None
