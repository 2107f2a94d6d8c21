"""The audit log: a file of lines that is rotated by size and cleared by age and number.

Names and habits are those of the rotation that kube-apiserver uses: `audit.log` becomes
`audit-2026-11-15T19-53-26.123.log`, perhaps with `.gz` behind it.
"""

from __future__ import annotations

import errno
import gzip
import os
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Callable

from pykcp.observe.audit.settings import LogSettings

_MEGABYTE = 1024 * 1024
_DAY = 86400.0


class LogFile:
    """Appends lines; a line is in the file whole or not at all. Not for several threads at once."""

    def __init__(
        self,
        settings: LogSettings,
        clock: Callable[[], float] = time.time,
        max_bytes: int | None = None,
    ) -> None:
        self._path = pathlib.Path(settings.path)
        self._settings = settings
        self._clock = clock
        self._most = settings.max_size * _MEGABYTE if max_bytes is None else max_bytes
        self._file = -1
        self._size = 0

    def open(self) -> None:
        """Raises OSError if the file cannot be written."""
        if self._file >= 0:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, lines: list[bytes]) -> None:
        """All lines, or OSError and none of them."""
        data = b"\n".join(lines) + b"\n"
        self.open()
        if self._settings.is_shared:
            self._look()
        if (
            self._settings.rotates
            and self._most
            and self._size
            and self._size + len(data) > self._most
        ):
            self._rotate()
        written = os.write(self._file, data)
        if written < len(data):
            # A full disk: half a line would spoil what comes after it. Another process may have
            # written more since; then the end of this line has to do.
            if not self._settings.is_shared:
                os.ftruncate(self._file, self._size)
            elif written:
                os.write(self._file, b"\n")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._size += written

    def _look(self) -> None:
        """What other processes have done: how much they wrote, whether they rotated the file."""
        found = os.fstat(self._file)
        self._size = found.st_size
        try:
            is_same = os.path.samestat(found, self._path.stat())
        except FileNotFoundError:
            is_same = False
        if not is_same:
            self.close()
            self.open()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _rotate(self) -> None:
        self.close()
        moment = self._clock()
        millis = int(moment * 1000) % 1000
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(moment)) + f".{millis:03d}"
        backup = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
        if self._path.exists():
            self._path.rename(backup)
            if self._settings.compress:
                _compress(backup)
        self._clear(moment)
        self.open()

    def _clear(self, now: float) -> None:
        """Remove backups that are too old or too many, oldest first."""
        backups = self.backups()
        keep = self._settings.max_backups
        surplus = backups[:-keep] if keep and len(backups) > keep else []
        limit = self._settings.max_age * _DAY
        if limit:
            surplus += [b for b in backups if b not in surplus and now - _stamp(b) > limit]
        for path in surplus:
            path.unlink(missing_ok=True)

    def backups(self) -> list[pathlib.Path]:
        """Oldest first."""
        found = [p for p in self._path.parent.iterdir() if _is_backup(p, self._path)]
        return sorted(found)


_STAMP = re.compile(r"-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)\.\d{3}$")


def _is_backup(path: pathlib.Path, of: pathlib.Path) -> bool:
    name = path.name.removesuffix(".gz")
    if not name.endswith(of.suffix):
        return False
    stem = name[: len(name) - len(of.suffix)] if of.suffix else name
    match = _STAMP.search(stem)
    return match is not None and stem[: match.start()] == of.stem


def _stamp(path: pathlib.Path) -> float:
    import calendar

    match = re.search(r"-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)\.\d{3}", path.name)
    assert match is not None  # it is a backup
    return float(calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H-%M-%S")))


def _compress(path: pathlib.Path) -> None:
    target = path.with_name(path.name + ".gz")
    with path.open("rb") as source, gzip.open(target, "wb") as out:
        shutil.copyfileobj(source, out)
    target.chmod(0o600)
    path.unlink()


class StandardOutput:
    """`--audit-log-path=-`."""

    def open(self) -> None:
        """Standard output is already open."""

    def write(self, lines: list[bytes]) -> None:
        sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """Standard output stays open."""
