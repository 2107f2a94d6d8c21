"""Memory that was needed once is given back to the system.

The C library keeps what is freed between blocks still in use. After a flood that can be most of
what the process ever had.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pathlib
from collections.abc import Callable

_log = logging.getLogger(__name__)
_STATM = pathlib.Path("/proc/self/statm")
_GROWTH = 48 * 1024 * 1024
"""Octets by which a process has to grow before it is looked at again."""


def resident() -> int:
    """Octets of this process in memory; 0 if the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None  # another C library


class Trimmer:
    """Gives memory back when the process has grown."""

    def __init__(self) -> None:
        self._trim = _find_trim()
        self._floor = 0
        """What was left when it was last given back."""

    @property
    def is_due(self) -> bool:
        """Whether `trim` could be worth it. Cheap."""
        if self._trim is None:
            return False
        now = resident()
        if not self._floor or now < self._floor:
            self._floor = now
        return now > self._floor + _GROWTH

    def trim(self) -> None:
        """For a thread: it takes milliseconds, in which Python goes on."""
        if self._trim is not None:
            before = resident()
            self._trim(0)
            self._floor = resident()
            _log.debug(
                "memory: %d of %d MiB given back", (before - self._floor) >> 20, before >> 20
            )
