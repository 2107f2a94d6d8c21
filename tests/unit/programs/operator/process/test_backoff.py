"""Pauses between starts."""

from __future__ import annotations

import pytest

from pykcp.programs.operator.drivers.process.backoff import failures_after, restart_pause


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (500, 60)]
)
def test_pauses_double_up_to_a_minute(failures: int, seconds: float) -> None:
    assert restart_pause(failures) == seconds


@pytest.mark.parametrize(("failures", "healthy", "after"), [(0, 0, 1), (4, 599, 5), (4, 600, 1)])
def test_ten_healthy_minutes_end_a_row_of_failures(
    failures: int, healthy: float, after: int
) -> None:
    assert failures_after(failures, healthy) == after
