"""When a syncer that waits for the lease of another one tries to get it."""

from __future__ import annotations

import pytest

from pykcp.multicluster.syncer.lease import pause_before_attempt

CASES = {
    "it has long to run": (8.0, 10.0, 1.0),
    "it runs out before the next attempt": (0.4, 10.0, 0.41),
    "it has run out, and another process was quicker": (-1.0, 10.0, 1.0),
    "a short lease": (1.9, 2.0, 0.4),
}


@pytest.mark.parametrize(("left", "lasts", "expected"), CASES.values(), ids=CASES)
def test_pauses(left: float, lasts: float, expected: float) -> None:
    assert pause_before_attempt(left, lasts) == pytest.approx(expected)
