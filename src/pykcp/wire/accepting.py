"""A listening socket whose connections are served by one of several processes."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from pykcp.aio.timers import call_later
from pykcp.wire.listener import ListenError, explain

_log = logging.getLogger(__name__)

_ACCEPTED_PER_TURN = 64
_PAUSE = 0.5
"""Seconds after which accepting is tried again when there are no descriptors left."""
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Accepts connections and hands each to `place`, which owns it from then on."""

    def __init__(self, place: Callable[[socket.socket], None]) -> None:
        self._place = place
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.port = 0

    def start(self, host: str, port: int, backlog: int = 1024) -> None:
        """Listen; port 0 takes a free one. Raises `ListenError`."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=backlog)
        except OSError as error:
            raise ListenError(error.errno, explain(error, host, port)) from error
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self._listen()

    def close(self) -> None:
        """Accept nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _listen(self) -> None:
        self._timer = None
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._wait(error)
                    return
                continue  # the client has gone already
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._place(accepted)

    def _wait(self, error: OSError) -> None:
        """The connection stays in the queue of the kernel, which would call again at once."""
        assert self._socket is not None
        _log.error("a connection cannot be accepted: %s", error)
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._timer = call_later(_PAUSE, self._listen)
