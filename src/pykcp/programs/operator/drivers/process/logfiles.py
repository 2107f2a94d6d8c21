"""Logs of processes: one file per replica, rotated by its size.

A process writes to the file itself, so that it needs no supervisor for it. A file is therefore
rotated by copying and truncating it; the process appends, and goes on at the new end.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
from collections.abc import AsyncIterator

MAX_BYTES = 10 << 20
KEPT = 3
"""Older files: `root-kcp-0.log.1`, …"""
_TAIL = 16 << 10
_LONGEST = 300
_FOLLOW_SECONDS = 0.2


def open_log(path: pathlib.Path) -> int:
    """A descriptor that appends, for a child process."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: pathlib.Path, limit: int = MAX_BYTES, kept: int = KEPT) -> bool:
    """Whether the file was too long and has been rotated. Raises OSError."""
    if not path.exists() or path.stat().st_size <= limit:
        return False
    for number in range(kept - 1, 0, -1):
        older = _numbered(path, number)
        if older.exists():
            older.replace(_numbered(path, number + 1))
    copy = _numbered(path, 1)
    with path.open("rb") as source, copy.open("wb") as target:
        copy.chmod(0o600)
        shutil.copyfileobj(source, target)
    os.truncate(path, 0)
    return True


def _numbered(path: pathlib.Path, number: int) -> pathlib.Path:
    return path.with_name(f"{path.name}.{number}")


def last_lines(path: pathlib.Path, count: int, start: int = 0) -> list[str]:
    """The last lines of a file, those before an offset left out; shortened, for messages."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = start if start <= size else 0  # it was rotated since
            file.seek(max(begin, size - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [readable(line) for line in text.splitlines() if line.strip()][-count:]


def readable(line: str) -> str:
    """A line of a log in JSON as its message; others as they are."""
    try:
        found = json.loads(line)
        text = f"{found['level']}: {found['msg']}"
    except (ValueError, TypeError, KeyError):
        text = line.strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _size(path: pathlib.Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def follow(path: pathlib.Path, offset: int) -> AsyncIterator[bytes]:
    """What is appended to a file from now on, also after it was rotated. Ends never."""
    while True:
        size = _size(path)
        if size < offset:
            offset = 0
        if size > offset:
            with path.open("rb") as file:
                file.seek(offset)
                piece = file.read(1 << 20)
            offset += len(piece)
            yield piece
        else:
            await asyncio.sleep(_FOLLOW_SECONDS)
