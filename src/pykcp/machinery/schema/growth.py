"""How much longer a small object may become on the event loop.

Where the work on an object is done is decided by its size. Defaults and copies of a patch make it
longer afterwards, a thousand times if the schema says so, and decoding what is stored takes as
long as there is of it. So code that chose the event loop because of a size says that here:

    with bounded():
        …  # raises Outgrown when more than AT_ONCE octets were added or decoded

and does the same by a worker process if it is too much; there, nothing is bounded by this module.
Only synchronous code belongs into the block: the bound is one for the whole process.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

AT_ONCE: Final = 64 * 1024
"""Octets of JSON that take a few milliseconds to add and to check."""
_UNBOUNDED: Final = 1 << 62


class Outgrown(Exception):
    """An object has become too large for the event loop: by defaults or copies, by admission or by
    its conversion.

    A write begins anew as a large one, with all of its admission; a read is left to a worker
    process. Raised only for what can restart.
    """


class _Growth:
    __slots__ = ("is_bounded", "left")

    def __init__(self) -> None:
        self.is_bounded = False
        self.left = _UNBOUNDED

    def take(self, size: int) -> None:
        """So many octets are added or decoded. Raises Outgrown."""
        if self.is_bounded:
            self.left -= size
            if self.left < 0:
                raise Outgrown


growth: Final = _Growth()


class bounded:  # noqa: N801 - reads as a function
    """The block may add and decode AT_ONCE octets; all it likes if `applies` is false."""

    __slots__ = ("_applies", "_before")

    def __init__(self, applies: bool = True) -> None:
        self._applies = applies
        self._before = (False, _UNBOUNDED)

    def __enter__(self) -> None:
        self._before = (growth.is_bounded, growth.left)
        growth.is_bounded = self._applies
        growth.left = AT_ONCE

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        growth.is_bounded, growth.left = self._before
