"""Files that are read again when they were replaced: certificates, authorities, keys.

They are looked at when they are used, every few seconds at most; nothing runs for them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

LOOK_SECONDS = 5.0

Stamp = tuple[tuple[int, int, int], ...]


class FollowedFiles:
    """Says when files differ from what was read last."""

    __slots__ = ("_paths", "_seen", "_wait_until")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._wait_until = 0.0
        self._seen = self._look()

    def have_changed(self, now: float) -> bool:
        """Whether to read them; `now` is of any clock, but always of the same one.

        Call `were_read` when that went well: otherwise the next look reports the change again.
        """
        # A clock that was set back would delay the next look.
        if self._wait_until - LOOK_SECONDS <= now < self._wait_until:
            return False
        self._wait_until = now + LOOK_SECONDS
        found = self._look()
        return found is not None and found != self._seen

    def were_read(self) -> None:
        self._seen = self._look()

    def _look(self) -> Stamp | None:
        """None if one of them is missing, as it may be for a moment while it is replaced."""
        try:
            found = [os.stat(path) for path in self._paths]  # noqa: PTH116  # a hot path
        except OSError:
            return None
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)
