"""The channel between the writer and a follower: short messages, and sockets that are passed on.

It is a pair of Unix sockets that keep messages apart. Neither side waits for the other: a message
that does not fit is not sent, and the sender decides what that means. When one process ends, the
other one sees the end of the channel at once.
"""

from __future__ import annotations

import asyncio
import enum
import os
import socket
from collections.abc import Callable, Sequence

_LONGEST = 64
_MOST_SOCKETS = 1
_MESSAGES_PER_TURN = 64


class MessageKind(bytes, enum.Enum):
    READY = b"y"
    """From a follower: it takes connections."""
    CLIENT = b"c"
    """From the writer, with a socket: a client's connection, to be served."""
    WRITER = b"w"
    """From a follower, with a socket: a connection for requests that the writer answers."""
    METRICS = b"m"
    """From the writer, with a socket: write your metrics there."""
    REVISION = b"r"
    """From the writer: there are new events."""
    HOLD = b"h"
    """From the writer: start no scans until RESUME, and answer HELD when those under way end."""
    HELD = b"d"
    RESUME = b"u"
    STOP = b"s"
    """From the writer: let requests in progress finish, then end."""


Received = Callable[[MessageKind, Sequence[socket.socket]], None]


def channel_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class ProcessChannel:
    """One end of a channel, on the running event loop."""

    def __init__(self, end: socket.socket, received: Received, ended: Callable[[], None]) -> None:
        """`ended`: called once, when the other process is gone."""
        self._end, self._received, self._ended = end, received, ended
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        end.setblocking(False)
        self._loop.add_reader(end.fileno(), self._receive)

    def send(self, kind: MessageKind, *sockets: socket.socket) -> bool:
        """Whether it was sent: the other process may be gone, or behind with its messages."""
        if not self._is_open:
            return False
        try:
            if sockets:
                socket.send_fds(self._end, [kind.value], [one.fileno() for one in sockets])
            else:
                self._end.send(kind.value)
        except OSError:  # what it means that the other is gone is said by `ended`
            return False
        return True

    def _receive(self) -> None:
        for _ in range(_MESSAGES_PER_TURN):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._end, _LONGEST, _MOST_SOCKETS)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, descriptors = b"", []
            sockets = [socket.socket(fileno=one) for one in descriptors]
            if not data:
                self._lost()
                return
            self._received(MessageKind(data), sockets)
            if not self._is_open:
                return

    def _lost(self) -> None:
        self.close()
        self._ended()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._end.fileno())
            self._end.close()


def inherited(descriptor: int) -> socket.socket:
    """The end of a channel that this process was started with."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)
