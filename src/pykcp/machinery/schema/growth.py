"""How much longer a small object may become on the event loop.

Where the work on an object is done is decided by its size. Defaults and copies of a patch make it
longer afterwards, a thousand times if the schema says so, and decoding what is stored takes as
long as there is of it. So code that chose the event loop because of a size says that here:

    with bounded():
        …  # raises Outgrown when more than AT_ONCE octets were added or decoded

and does the same by a worker process if it is too much; there, nothing is bounded by this module.
A block is one for the task that runs it, so that it may also wait.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final

AT_ONCE: Final = 64 * 1024
"""Octets of JSON that take a few milliseconds to add and to check."""


class Outgrown(Exception):
    """An object has become too large for the event loop: by defaults or copies, by admission or by
    its conversion.

    A write begins anew as a large one, with all of its admission; a read is left to a worker
    process. Raised only for what can restart.
    """


class _Room:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = AT_ONCE


_room: Final[ContextVar[_Room | None]] = ContextVar("room to grow", default=None)


def grow(size: int) -> None:
    """So many octets are added or decoded. Raises Outgrown."""
    room = _room.get()
    if room is not None:
        room.left -= size
        if room.left < 0:
            raise Outgrown


class bounded:  # noqa: N801 - reads as a function
    """The block may add and decode AT_ONCE octets; all it likes if `applies` is false."""

    __slots__ = ("_applies", "_before")

    def __init__(self, applies: bool = True) -> None:
        self._applies = applies

    def __enter__(self) -> None:
        self._before: Token[_Room | None] = _room.set(_Room() if self._applies else None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _room.reset(self._before)
