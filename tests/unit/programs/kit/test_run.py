"""Running a program: exit codes, signals, and what is printed for mistakes and for defects."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykcp.testing.server import environment

PROGRAM = """
import asyncio, sys
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.run import run_program

class Sample:
    NAME = "sample"
    async def __aenter__(self):
        {start}
    async def __aexit__(self, *exc):
        {stop}
    def announcement(self):
        yield "serving"

sys.exit(run_program(Sample(), LoggingOptions(), ["a warning"]))
"""


@contextmanager
def program(start: str = "pass", stop: str = "pass") -> Iterator[subprocess.Popen[str]]:
    code = PROGRAM.format(start=start, stop=stop)
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        yield process
        process.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    assert any(text in line for line in process.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(number: signal.Signals) -> None:
    """It drains, and the exit code is 0."""
    with program(stop="print('drained', file=sys.stderr)") as process:
        wait_for(process, "sample is ready")
        process.send_signal(number)
        wait_for(process, "drained")
        assert process.wait(20) == 0


def test_a_second_signal_does_not_wait() -> None:
    """A drain that takes long is given up."""
    stop = "print('draining', file=sys.stderr, flush=True); await asyncio.Event().wait()"
    with program(stop=stop) as process:
        wait_for(process, "sample is ready")
        process.terminate()
        wait_for(process, "draining")
        process.terminate()
        assert process.wait(20) == 1


def test_a_signal_during_the_start() -> None:
    """The start is cancelled; nothing has to be drained."""
    start = "print('waiting', file=sys.stderr, flush=True); await asyncio.Event().wait()"
    with program(start, stop="raise AssertionError") as process:
        wait_for(process, "waiting")
        process.terminate()
        wait_for(process, "stopped before sample was ready")
        assert process.wait(20) == 0


def test_mistakes_and_defects() -> None:
    """A mistake of the user is one line; a defect has a traceback. Both end with exit code 1."""
    with program("raise FileNotFoundError(2, 'No such file or directory', '/x')") as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    lines = errors.splitlines()
    assert lines[0].endswith("] starting sample v1.36.0+kcp-v0.32.0")
    assert lines[1].endswith("] a warning")
    assert lines[2:] == ["Error: /x: No such file or directory"]
    with program("raise KeyError('x')") as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "Traceback" in errors
