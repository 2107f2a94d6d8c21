"""A line on the terminal for commands that work for long: what they do, since when, how far.

It is drawn by a thread, on standard error, after a second. What is printed and logged meanwhile
comes above it. Where standard error is no terminal, nothing is shown.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from pykcp.cli.terminal import QUIET, ProgressLine, is_terminal

_EVERY = 0.5
"""Seconds between two looks."""

Say = Callable[[str], None]


class WorkProgress:
    def __init__(self, what: str, measure: Callable[[], str], stream: TextIO) -> None:
        """`measure`: says how far the work is, for example how much was written."""
        self._what, self._measure, self._stream = what, measure, stream
        self._line = ProgressLine(stream)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._began = time.monotonic()

    def run(self, quiet: float) -> None:
        """Draw after so many seconds until `end`; for a thread."""
        between = quiet
        while not self._ended.wait(between):
            between = _EVERY
            seconds = time.monotonic() - self._began
            text = ", ".join(filter(None, (f"{self._what}: {seconds:.0f} s", self._measure())))
            with self._lock:
                if not self._ended.is_set():
                    self._line.draw(text)

    def clear(self) -> None:
        """Make room for something else."""
        with self._lock:
            self._line.clear()

    def end(self) -> None:
        self._ended.set()
        self.clear()

    def say(self, line: str) -> None:
        self.clear()
        print(line, flush=True)


@contextmanager
def shown_progress(
    what: str,
    measure: Callable[[], str] = str,
    stream: TextIO | None = None,
    quiet: float = QUIET,
) -> Iterator[Say]:
    """While a command works; what it yields prints lines of the result."""
    stream = stream or sys.stderr
    progress = WorkProgress(what, measure, stream)
    if not is_terminal(stream):
        yield progress.say
        return
    handlers = logging.getLogger().handlers[:]

    def clear(_: logging.LogRecord) -> bool:
        progress.clear()
        return True

    for handler in handlers:
        handler.addFilter(clear)
    thread = threading.Thread(target=progress.run, args=(quiet,), name="progress", daemon=True)
    thread.start()
    try:
        yield progress.say
    finally:
        progress.end()
        thread.join()
        for handler in handlers:
            handler.removeFilter(clear)


def written_below(paths: Sequence[pathlib.Path]) -> Callable[[], str]:
    """How much was written into files and directories since now."""
    before = sum(map(_size, paths))

    def measure() -> str:
        octets = sum(map(_size, paths)) - before
        return f"{octets / (1 << 20):.1f} MiB written" if octets > 0 else ""

    return measure


def _size(path: pathlib.Path) -> int:
    """Octets of a file, or of all files in a directory; what vanishes meanwhile has none."""
    if not path.is_dir():
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_size
        return 0
    found = (pathlib.Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return sum(_size(one) for one in found)
