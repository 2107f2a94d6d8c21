"""Standard output whose reader has gone: a command ends without a word, as other programs do."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

CLOSED_PIPE = 141
"""The exit code that a shell gives a program that SIGPIPE ended."""
P = ParamSpec("P")


def ends_quietly(main: Callable[P, int]) -> Callable[P, int]:
    """For the entry point of a program: `kcp status | head -1` prints one line, and no error.

    No handler of errors in between sees the closed pipe: it would print a message about it.
    """

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        if sys.stdout is not sys.__stdout__ or sys.stdout is None:
            return main(*args, **kwargs)  # within another program, which reads what is printed
        sys.stdout = _piped(sys.stdout)
        try:
            code = main(*args, **kwargs)
            sys.stdout.flush()
        finally:
            use_plain_output()
        return code

    return run


def use_plain_output() -> None:
    """From here on, a closed pipe is an error like others: servers go on without a reader."""
    if isinstance(sys.stdout, _Output):
        sys.stdout.flush()
        sys.stdout = sys.__stdout__


class _PipedFile(io.FileIO):
    def write(self, data: bytes | memoryview) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            # what is still in buffers goes nowhere, also when Python exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise SystemExit(CLOSED_PIPE) from None


class _Output(io.TextIOWrapper):
    """Standard output that ends the program once nobody reads it."""


def _piped(stream: io.TextIOWrapper) -> _Output:
    raw = _PipedFile(stream.fileno(), "wb", closefd=False)
    return _Output(
        raw if stream.write_through else io.BufferedWriter(raw),  # type: ignore[type-var]
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
