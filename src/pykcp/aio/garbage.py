"""Garbage collection in pieces that are short enough for an event loop.

The interpreter collects garbage whenever enough objects were made, in the middle of any request,
and now and then looks at all objects that there are. With one large object decoded that takes
longer than anybody should wait. So its own schedule is switched off, and the event loop calls
`Collector.tick` while it has work:

* young objects are looked at when there are some thousand of them;
* very many at once are nearly always one large JSON document, which reference counts free as soon
  as it is done with: they are set aside without a look (`gc.freeze` takes no time);
* all objects are looked at when the loop is about to have a pause, or if there are far more of
  them than last time.

Objects are freed by their reference counts as ever; only cycles wait for the collector.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

_FEW = 5_000
"""New objects below which nothing is done."""
_MANY = 50_000
"""Objects that are looked at in one go: some milliseconds."""
_FULL = 25_000
"""Objects that got old since the last look at all, before a pause is used for another one."""
_GROWTH = 1_000_000
"""The same for a look without a pause,"""
_GROWTH_SECONDS = 5.0
"""if they stay for so long: a large document is gone by then."""


class Collector:
    """The schedule of one process; called in the thread of its event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._middle = 0
        """Objects that survived one look."""
        self._old = 0
        """Objects that were not looked at since the last full pass, or survived two looks.

        Those that were freed meanwhile are counted, too.
        """
        self._settled = 0
        """How many objects there were after the last full pass."""
        self._has_grown = False
        """Whether there were far more when they were last counted."""
        self._count_at = 0.0
        """When they may be counted again."""

    def start(self) -> None:
        """What there is by now is going to stay: it is not looked at again before it has to be."""
        gc.disable()
        gc.collect()
        gc.freeze()
        self._settled = gc.get_freeze_count()

    def stop(self) -> None:
        """Back to the interpreter's own schedule."""
        gc.unfreeze()
        gc.enable()

    def tick(self, *, is_pause: bool) -> None:
        """Collect what is due. `is_pause`: the event loop has nothing else to do."""
        young = gc.get_count()[0]
        if is_pause and young + self._middle + self._old > _FULL:
            self._collect_all()
        elif young > _MANY:
            gc.freeze()
            self._old += young + self._middle
            self._middle = 0
        elif young > _FEW:
            self._collect_young(young)
        if self._old > _GROWTH and self._clock() >= self._count_at:
            self._check_growth()

    def _collect_young(self, young: int) -> None:
        if self._middle + young > _MANY:
            self._old += self._middle + young - gc.collect(1)
            self._middle = 0
        else:
            self._middle += young - gc.collect(0)

    def _check_growth(self) -> None:
        """Whether objects that seem to be old are still there, and stay."""
        gc.freeze()
        self._middle = 0
        had_grown, self._has_grown = (
            self._has_grown,
            gc.get_freeze_count() > self._settled + _GROWTH,
        )
        if not self._has_grown:
            self._old = 0
        elif had_grown:
            self._collect_all()
        else:
            self._count_at = self._clock() + _GROWTH_SECONDS

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._settled = gc.get_freeze_count()
        self._old = self._middle = 0
        self._has_grown = False
