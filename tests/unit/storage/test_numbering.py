from __future__ import annotations

import pytest

from pykcp.storage.errors import ClockSkew
from pykcp.storage.numbering import (
    EPOCH_MILLISECONDS,
    SLOTS,
    HybridClock,
    PlainCounter,
    at_milliseconds,
    slot_of,
)

SECOND = at_milliseconds(1000)
DAY = 24 * 3600 * SECOND


def clock_at(revision: int, slot: int = 5) -> HybridClock:
    return HybridClock(slot, lambda: EPOCH_MILLISECONDS + (revision // at_milliseconds(1)))


@pytest.mark.parametrize(
    ("last", "now", "following"),
    [
        (0, 10 * DAY, 10 * DAY + 5),
        (77, 10 * DAY, 10 * DAY + 5),  # a counter that becomes a clock
        (10 * DAY + 5, 10 * DAY, 10 * DAY + 5 + SLOTS),  # twice in a millisecond
        (10 * DAY + 6, 10 * DAY, 10 * DAY + 5 + 2 * SLOTS),  # after one of another slot
        (10 * DAY + 4, 10 * DAY, 10 * DAY + 5 + SLOTS),
        (11 * DAY + 5, 10 * DAY, 11 * DAY + 5 + SLOTS),  # a clock that was set back
    ],
)
def test_next_revision_is_newer_and_of_the_slot(last: int, now: int, following: int) -> None:
    clock = clock_at(now)
    found = clock.base(last) + clock.step
    assert found == following
    assert found > last
    assert slot_of(found) == 5


def test_fifty_three_bits_last_for_decades() -> None:
    in_sixty_years = 60 * 365 * DAY
    assert clock_at(in_sixty_years).base(0) < 1 << 53


@pytest.mark.parametrize(("ahead", "is_taken"), [(-DAY, True), (0, True), (59, True), (61, False)])
def test_revisions_far_in_the_future_are_rejected(ahead: int, is_taken: bool) -> None:
    revision = 10 * DAY + ahead * SECOND
    if is_taken:
        assert clock_at(10 * DAY).reserve(revision) > revision
    else:
        with pytest.raises(ClockSkew):
            clock_at(10 * DAY).reserve(revision)


def test_counters_have_no_slot() -> None:
    counter = PlainCounter()
    assert counter.base(41) + counter.step == 42
    assert counter.reserve(42) == 42
    assert slot_of(42) is None


@pytest.mark.parametrize("slot", [-1, SLOTS])
def test_slots_are_checked(slot: int) -> None:
    with pytest.raises(ValueError, match="slot"):
        HybridClock(slot)
