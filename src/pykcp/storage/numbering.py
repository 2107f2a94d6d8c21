"""How revisions are numbered. Pure, except for the clock that is passed in.

A shard of its own counts: 1, 2, 3. The shards of a fleet use a hybrid clock, so that no two
shards ever give out the same number and numbers of different shards can be compared in time:

    41 bits: milliseconds since 2024 │ 5 bits: counter │ 7 bits: slot of the shard

It is still one rising number of at most 53 bits, which every JSON parser reads exactly. More than
32 writes in a millisecond run ahead of the clock, which is harmless: the number only has to rise.
A clock that is set back has no effect until it has caught up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from pykcp.storage.errors import ClockSkew

SLOT_BITS, COUNTER_BITS = 7, 5
SLOTS = 1 << SLOT_BITS
EPOCH_MILLISECONDS = 1_704_067_200_000
MOST_AHEAD_SECONDS = 60
"""A revision of another shard that is further ahead of the own clock is rejected: one broken clock
must not carry all shards along."""
RESERVED_SECONDS = 5
"""An advance is stored so far ahead, so that only one in so many seconds is written to disk."""

Milliseconds = Callable[[], int]


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


class Numbering(Protocol):
    @property
    def step(self) -> int:
        """The distance between consecutive revisions."""

    def base(self, last: int) -> int:
        """The number that the next revision follows, by a step; at least `last`."""

    def reserve(self, revision: int) -> int:
        """Up to which number to store that everything is given out. Raises ClockSkew."""


class PlainCounter:
    """1, 2, 3."""

    step = 1

    def base(self, last: int) -> int:
        return last

    def reserve(self, revision: int) -> int:
        return revision


class HybridClock:
    step = SLOTS

    def __init__(self, slot: int, milliseconds: Milliseconds = wall_clock) -> None:
        if not 0 <= slot < SLOTS:
            raise ValueError(f"slot {slot} is not between 0 and {SLOTS - 1}")
        self.slot, self._milliseconds = slot, milliseconds

    def base(self, last: int) -> int:
        aligned = last - (last - self.slot) % SLOTS  # of this slot, at most `last`
        if aligned < last:
            aligned += SLOTS
        return max(aligned, self.now() - SLOTS)

    def reserve(self, revision: int) -> int:
        if revision > self.now() + at_milliseconds(1000 * MOST_AHEAD_SECONDS):
            raise ClockSkew(revision)
        return revision + at_milliseconds(1000 * RESERVED_SECONDS)

    def now(self) -> int:
        return at_milliseconds(self._milliseconds() - EPOCH_MILLISECONDS) | self.slot


def at_milliseconds(milliseconds: int) -> int:
    return milliseconds << (COUNTER_BITS + SLOT_BITS)


RESERVED_AHEAD = at_milliseconds(500 * RESERVED_SECONDS)
"""With less than this left of what is reserved, more is reserved in the background."""


def slot_of(revision: int) -> int | None:
    """The slot of the shard that gave a revision out; None: it is the number of a counter."""
    return revision % SLOTS if revision >= _FIRST_HYBRID else None


_FIRST_HYBRID = at_milliseconds(1000 * 3600 * 24)
"""Counters do not get there: it is 350 billion."""


def is_hybrid(revision: int) -> bool:
    """Whether a revision can be compared with those of other shards."""
    return revision >= _FIRST_HYBRID


def earlier(revision: int, seconds: float) -> int:
    """A revision that a shard had so long before; of a counter, which does not tell, the same."""
    return revision - at_milliseconds(int(1000 * seconds)) if is_hybrid(revision) else revision


def numbering(slot: int | None) -> Numbering:
    return PlainCounter() if slot is None else HybridClock(slot)
