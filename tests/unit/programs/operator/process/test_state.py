"""What is said of processes that have ended."""

from __future__ import annotations

import pytest

from pykcp.programs.operator.drivers.process.state import ending

LOG = ("starting", "Error: 127.0.0.1:6443 is in use by another program")
TRACEBACK = ("Traceback (most recent call last):", "ValueError: x")


@pytest.mark.parametrize(
    ("code", "lines", "words"),
    [
        (1, LOG, "ended with exit code 1: 127.0.0.1:6443 is in use by another program"),
        (1, (LOG[1], "bye"), "ended with exit code 1: 127.0.0.1:6443 is in use by another program"),
        (1, TRACEBACK, "ended with exit code 1: ValueError: x"),
        (2, (), "ended with exit code 2"),
        (0, ("drained",), "ended with exit code 0"),
        (-9, ("serving",), "ended by signal SIGKILL"),
        (-64, ("serving",), "ended by signal SIGRTMAX"),
        (-99, ("serving",), "ended by signal 99"),
        (None, ("serving",), "the process has ended"),
        (None, LOG, "the process has ended: 127.0.0.1:6443 is in use by another program"),
    ],
)
def test_an_ending_names_its_cause(code: int | None, lines: tuple[str, ...], words: str) -> None:
    assert ending(code, lines) == words
