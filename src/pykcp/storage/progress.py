"""How far a log is, in memory that several processes share.

The process that writes a log stores two numbers there: the newest revision that it has announced,
before any of its clients learns of it, and the revision up to which history is compacted, before
anything is removed. A process that follows the log compares the first with its own revision: if
they are equal, it has everything that was acknowledged to any client of any process.

Words are aligned and written by one store instruction, so that readers see the old or the new one.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from typing import Protocol

_WORD = 8


class SharedWords:
    """A row of unsigned numbers of 64 bits that processes share through a file descriptor."""

    def __init__(self, descriptor: int, count: int) -> None:
        """On a descriptor that another process has made; it is closed with this object."""
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, count * _WORD)
        self.view = memoryview(self._memory).cast("Q")

    @classmethod
    def create(cls, count: int) -> SharedWords:
        """New ones, all zero."""
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, count * _WORD)
        return cls(descriptor, count)

    def close(self) -> None:
        self.view.release()
        self._memory.close()
        os.close(self.descriptor)


class LogFollowers(Protocol):
    """Other processes that follow a log, as the store sees them that writes it."""

    def announce(self, revision: int) -> None:
        """The log is committed up to a revision; no client knows yet."""

    def announce_compaction(self, revision: int) -> None:
        """History before a revision is about to be removed."""

    def announce_adoption(self, since: int) -> None:
        """Keys with older revisions, of which there are no events, begin or cease to be added.

        Who has all events up to `since` misses nothing else.
        """

    def drain(self, drained: Callable[[], None]) -> None:
        """Have scans held back until `resume`; say when those under way are through."""

    def resume(self) -> None: ...


class LogProgress:
    """The numbers of one log."""

    __slots__ = ("_first", "_words")

    SIZE = 4
    """Words that it takes."""

    def __init__(self, words: SharedWords, index: int) -> None:
        self._words = words.view
        self._first = index * self.SIZE

    @property
    def revision(self) -> int:
        return self._words[self._first]

    @revision.setter
    def revision(self, revision: int) -> None:
        self._words[self._first] = revision

    @property
    def compacted(self) -> int:
        return self._words[self._first + 1]

    @compacted.setter
    def compacted(self, revision: int) -> None:
        self._words[self._first + 1] = revision

    @property
    def adoptions(self) -> int:
        """Twice how often keys were added of which there are no events; odd while some are."""
        return self._words[self._first + 2]

    @adoptions.setter
    def adoptions(self, count: int) -> None:
        self._words[self._first + 2] = count

    @property
    def adopted_since(self) -> int:
        """The revision that a process must have to go on after the last adoption."""
        return self._words[self._first + 3]

    def note_adoption(self, since: int) -> None:
        self._words[self._first + 3] = max(self.adopted_since, since)
        self.adoptions += 1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pykcp-progress")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
