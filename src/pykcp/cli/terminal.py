"""What a terminal can show that a file cannot: colours, and a line that changes."""

from __future__ import annotations

import os
import sys
from typing import TextIO

RED, GREEN, YELLOW = "31", "32", "33"
QUIET = 1.0
"""Seconds after which a terminal shows what a command is doing."""
_CLEAR = "\r\x1b[K"


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, on a terminal; `NO_COLOR` turns colours off, as in other programs."""
    if os.environ.get("NO_COLOR") or not is_terminal(stream or sys.stdout):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


class ProgressLine:
    """One line on the terminal that says what a command waits for; nothing in a file."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = False

    def show(self, text: str, seconds: float) -> None:
        self.draw(
            f"waiting for {seconds:.0f} s: {text}" if text else f"waiting for {seconds:.0f} s"
        )

    def draw(self, line: str) -> None:
        if is_terminal(self._stream):
            self._stream.write(_CLEAR + line[: _width() - 1])
            self._stream.flush()
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._is_shown = False


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80  # some say 0
    except OSError:
        return 80
