"""What systemd is told, on a real socket."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import socket
from collections.abc import Iterable, Iterator

import pytest

from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.run import run_program


class _Program:
    NAME = "test"

    def __init__(self, heard: socket.socket) -> None:
        self._heard = heard
        self.before: list[str] = []

    async def __aenter__(self) -> None:
        self.before = list(_words(self._heard))  # nothing is told before it is ready

    async def __aexit__(self, *exc: object) -> None: ...

    def announcement(self) -> Iterable[str]:
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGTERM)
        return ()


def _words(heard: socket.socket) -> Iterator[str]:
    while True:
        try:
            yield heard.recv(1000).decode()
        except BlockingIOError:
            return


@pytest.mark.parametrize("is_abstract", [False, True])
def test_ready_alive_and_stopping(
    is_abstract: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"\0pykcp-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(path)
        heard.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", path.replace("\0", "@"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        program = _Program(heard)
        assert run_program(program, LoggingOptions()) == 0
        told = list(_words(heard))
    assert program.before == []
    assert (told[0], told[-1]) == ("READY=1", "STOPPING=1")
    assert set(told[1:-1]) == {"WATCHDOG=1"}
    assert len(told) > 3  # again and again
    assert "NOTIFY_SOCKET" not in os.environ  # children do not speak for the program


def test_the_watchdog_of_another_process_is_left_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        monkeypatch.setenv("WATCHDOG_PID", "1")
        assert run_program(_Program(heard), LoggingOptions()) == 0
        assert list(_words(heard)) == ["READY=1", "STOPPING=1"]
