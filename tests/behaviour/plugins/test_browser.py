"""The full-screen browser on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios

SECONDS = 30.0


def _until(descriptor: int, text: str) -> str:
    """Read the screen until a text has been drawn."""
    seen = ""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], SECONDS)
        assert ready, f"{text!r} did not appear in:\n{seen}"
        seen += os.read(descriptor, 65536).decode(errors="replace")
    return seen


def test_enter_goes_there(shell, org):
    shell("create-workspace aaa")
    shell("create-workspace bbb")
    command = [sys.executable, "-m", "pykcp.cli.plugins", "kubectl-ws", "-i"]
    child, descriptor = pty.fork()
    if child == 0:
        os.chdir(shell.folder)
        os.execvpe(command[0], command, shell.environment)
    try:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        _until(descriptor, "Press Enter")
        os.write(descriptor, b"j")
        _until(descriptor, f"root:{org}:aaa | root:universal")
        os.write(descriptor, b"\x1b[B")
        _until(descriptor, f"root:{org}:bbb | root:universal")
        os.write(descriptor, b"\r")
        shown = _until(descriptor, "(type root:universal).")
        _, status = os.waitpid(child, 0)
    finally:
        os.close(descriptor)  # ends the child if it is still there
    assert status == 0
    assert "\x1b[?1049l" in shown
    assert shell("ws .") == f"Current workspace is 'root:{org}:bbb'.\n"
