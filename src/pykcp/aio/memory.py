"""Returns unused memory to the system.

The C library keeps freed memory that lies between blocks in use. After a peak that can be most of
the process' memory.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable

_log = logging.getLogger(__name__)
_STATM = "/proc/self/statm"
_GROWTH = 48 * 1024 * 1024
"""Octets by which a process has to grow before something is done."""
_SECONDS = 5.0
"""Between two attempts, at first."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Octets of this process in memory; 0 if the system does not say."""
    try:
        file = os.open(_STATM, os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(file, 256).split()[1]) * _PAGE
    finally:
        os.close(file)


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None  # another C library


def trim() -> None:
    """Return what is free now. For a thread: it takes milliseconds, in which Python goes on."""
    if _trim is not None:
        _trim(0)


_trim = _find_trim()


class Trimmer:
    """Gives memory back when the process has grown; less often while that is in vain."""

    def __init__(self) -> None:
        self._trim = _find_trim()
        self._least = 0
        """The smallest that the process was seen."""
        self._interval = _SECONDS
        self._not_before = 0.0

    def is_due(self, now: float, *, is_idle: bool) -> bool:
        """Whether `trim` could be worth it. Cheap."""
        if self._trim is None:
            return False
        size = resident()
        if not self._least or size < self._least:
            self._least = size
        return size > self._least + _GROWTH and (is_idle or now >= self._not_before)

    def trim(self, now: float) -> None:
        """For a thread: it takes milliseconds, in which Python goes on."""
        if self._trim is None:
            return
        before = resident()
        self._trim(0)
        given_back = before - resident()
        self._interval = _SECONDS if given_back > _GROWTH else min(2 * self._interval, 300.0)
        self._not_before = now + self._interval
        _log.debug("memory: %d of %d MiB given back", given_back >> 20, before >> 20)
