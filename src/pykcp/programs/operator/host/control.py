"""Requests to a running supervisor: one line of JSON on a Unix socket, answered by lines.

The socket is in the root directory, which only its owner can enter.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from pykcp.programs.kit.errors import SettingsError
from pykcp.types import Object

SOCKET = "up.sock"
_LONGEST = 64 << 20
Answer = Callable[[Object], AsyncIterator[Object]]


class NotRunning(SettingsError):
    """No supervisor answers."""


@contextmanager
def _short_path(root: pathlib.Path) -> Iterator[str]:
    """The socket's path by a descriptor of its directory: addresses are limited to 107 bytes."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


class ControlServer:
    """Answers requests until it is closed."""

    def __init__(self, root: pathlib.Path, answer: Answer) -> None:
        self._root, self._answer = root, answer
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (self._root / SOCKET).unlink(missing_ok=True)  # of a supervisor that was killed
        with _short_path(self._root) as path:
            listening.bind(path)
        (self._root / SOCKET).chmod(0o600)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=_LONGEST)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            async for answer in self._answer(request):
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ValueError, TypeError, KeyError) as error:
            writer.write(json.dumps({"error": f"bad request: {error}"}).encode() + b"\n")
        except ConnectionError:
            pass  # the caller has gone
        finally:
            writer.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            (self._root / SOCKET).unlink(missing_ok=True)


def ask(
    root: pathlib.Path, command: str, seconds: float | None = 60.0, **more: object
) -> Iterator[Object]:
    """The answers of the supervisor of a root directory. Raises NotRunning, SettingsError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    with connection:
        try:
            with _short_path(root) as path:
                connection.connect(path)
        except OSError:
            raise NotRunning(
                f"no supervisor is running for {root}; start it with: kcp up --root-directory={root}"
            ) from None
        connection.sendall(json.dumps({"command": command, **more}).encode() + b"\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                answer: Object = json.loads(line)
                if "error" in answer:
                    raise SettingsError(str(answer["error"]))
                yield answer


def is_running(root: pathlib.Path) -> bool:
    with suppress(SettingsError, OSError):
        return any(True for _ in ask(root, "ping", 5.0))
    return False
