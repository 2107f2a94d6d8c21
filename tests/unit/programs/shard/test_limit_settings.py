"""Flags of limits and fairness: kcp's defaults, and nonsense is refused before the start."""

from __future__ import annotations

import pytest

from pykcp.programs.shard.settings import ShardSettings


def _settings(*words: str) -> ShardSettings:
    return ShardSettings.parse(words)[0]


def test_without_flags_there_is_no_object_limit_and_requests_are_shared_fairly() -> None:
    settings = _settings()
    assert settings.tenancy.total_object_limit == 0
    assert settings.fairness.fairness
    assert settings.problems() == []


def test_flags_reach_the_settings() -> None:
    settings = _settings(
        "--logical-cluster-total-object-limit=70",
        "--fairness=false",
        "--fairness-seats=16",
        "--fairness-long-seats=2",
        "--fairness-queue-length=3",
        "--fairness-queue-wait=500ms",
        "--fairness-watches-per-user=9",
    )
    assert (settings.tenancy.total_object_limit, settings.fairness.fairness) == (70, False)
    assert (settings.fairness.fairness_seats, settings.fairness.fairness_long_seats) == (16, 2)
    assert (settings.fairness.fairness_queue_length, settings.fairness.fairness_queue_wait) == (
        3,
        0.5,
    )
    assert settings.fairness.fairness_watches_per_user == 9


@pytest.mark.parametrize(
    "flag",
    ["seats", "long-seats", "queue-length", "queue-wait", "watches-per-user"],
)
def test_nothing_can_be_zero(flag: str) -> None:
    problems = _settings(f"--fairness-{flag}={'0s' if flag == 'queue-wait' else 0}").problems()
    assert problems == [f"--fairness-{flag} must be greater than 0"]
