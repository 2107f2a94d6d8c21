"""Garbage collection in steps that are short enough for an event loop.

By default the interpreter collects garbage whenever enough objects were created, in the middle of
any request, and occasionally visits all objects. With a large decoded document, or the roles of a
large tenant in memory, that takes up to seconds. So automatic collection is disabled, and the
event loop calls `Collector.tick` while it has work:

* young objects are visited when there are some thousand of them, survivors twice more; objects
  that still exist then are set aside (`gc.freeze`, which takes no time);
* a very large number of new objects is nearly always one large JSON document, which is freed by
  reference counting when it is no longer used: they are set aside without a visit;
* objects that were set aside are visited when the loop is about to become idle, unless there are
  too many of them.

Reference counting still frees objects immediately; only cycles wait for the collector. Large
long-lived objects must not be part of one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

_FEW = 5_000
"""New objects below which nothing is done."""
_MANY = 20_000
"""Objects that are looked at in one go while there is work, up to three times as many together: some
milliseconds."""
_FULL = 25_000
"""New objects after which a pause is used for a look at all, and the part of all objects that"""
_GROWTH = 0.25
"""they have to be."""
_MOST = 300_000
"""Objects that are looked at in a pause: some ten milliseconds."""
_COUNT_SECONDS = 60.0
"""Counting more than that takes as long as some milliseconds, and is done once in this time."""
_LONGEST_SECONDS = 600.0
"""After so long they are looked at in a pause however many they are: most may be garbage."""


class Collector:
    """The schedule of one process; called in the thread of its event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._middle = self._old = 0
        """Objects that survived one look, and two; those that were freed since among them."""
        self._aside = 0
        """Objects that were set aside since the last look at all."""
        self._settled = 0
        """How many objects there were then."""
        self._count_at = 0.0
        """When they may be counted again, if there were too many."""
        self._looked_at = 0.0
        """When the last look at all of them was."""

    def start(self) -> None:
        """What there is by now is going to stay: it is not looked at again before it has to be."""
        gc.disable()
        self._look_at_all()

    def stop(self) -> None:
        """Back to the interpreter's own schedule."""
        gc.unfreeze()
        gc.enable()

    def tick(self, *, is_pause: bool) -> None:
        """Collect what is due. `is_pause`: the event loop has nothing else to do."""
        young = gc.get_count()[0]
        if is_pause and self._is_all_due(young):
            self._look_at_all()
        elif young > _MANY:
            self._set_aside(young)
        elif young > _FEW:
            self._look(young)

    def _is_all_due(self, young: int) -> bool:
        new = young + self._middle + self._old + self._aside
        if self._settled + new <= _MOST:
            return new > max(_FULL, _GROWTH * self._settled)
        now = self._clock()
        if now - self._looked_at > _LONGEST_SECONDS:
            return True
        if now < self._count_at:
            return False
        self._count_at = now + _COUNT_SECONDS
        self._set_aside(young)
        self._settle()  # many of them may be gone
        return self._settled <= _MOST

    def _look_at_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        self._set_aside(0)
        self._settle()
        self._looked_at = self._clock()

    def _look(self, young: int) -> None:
        """At young objects, and at older ones if there are enough of them."""
        if self._middle + young <= _MANY:
            self._middle += young - gc.collect(0)
        elif self._old <= _MANY:
            self._old += self._middle + young - gc.collect(1)
            self._middle = 0
        else:
            self._set_aside(young - gc.collect())

    def _set_aside(self, young: int) -> None:
        gc.freeze()
        self._aside += young + self._middle + self._old
        self._middle = self._old = 0

    def _settle(self) -> None:
        self._settled = gc.get_freeze_count()
        self._aside = 0
