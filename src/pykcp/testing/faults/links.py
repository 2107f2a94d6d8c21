"""Links between programs that can be cut: relays before the servers of this machine.

Each connection belongs to the link from one client to one server. Which client it is, the process
tells that has the other end of it; so an address can be cut for one program and work for others,
as between real machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import pathlib
from collections.abc import Callable, Mapping
from typing import Self

from pykcp.aio.owner import spawn
from pykcp.testing.faults.looping import LoopThread

_HOST = "127.0.0.1"
_PIECE = 1 << 16
_DELAY_SECONDS = 0.3


class Fault(enum.Enum):
    """What is wrong with a link."""

    RESET = "reset"
    """Connections are broken, and so is each new one."""
    SILENT = "silent"
    """Connections are accepted and stay open, and nothing passes. They never come back, not even
    when the link does: what lies between the two has forgotten them."""
    SLOW = "slow"
    """Everything arrives late."""


class Link:
    """The connections from one client to one server."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.connections: set[RelayedConnection] = set()

    async def fail(self, fault: Fault | None) -> None:
        self.fault = fault
        for connection in [*self.connections]:
            if fault is Fault.RESET:
                connection.abort()
            elif fault is Fault.SILENT:
                connection.is_lost = True


class RelayedConnection:
    """Two connections, and what passes between them."""

    def __init__(self, link: Link, *ends: asyncio.StreamWriter) -> None:
        self._link, self._ends = link, ends
        self.is_lost = link.fault is Fault.SILENT
        self._tasks: list[asyncio.Task[None]] = []
        link.connections.add(self)

    def start(self, *readers: asyncio.StreamReader) -> None:
        """`readers`: in the order of the ends."""
        pairs = zip(readers, reversed(self._ends), strict=True)
        self._tasks = [spawn(self._pass(*pair), "relay") for pair in pairs]

    def abort(self) -> None:
        self._link.connections.discard(self)
        for end in self._ends:
            end.transport.abort()
        for task in self._tasks:
            task.cancel()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self._link.fault is Fault.SLOW:
                    await asyncio.sleep(_DELAY_SECONDS)
                if self.is_lost:
                    return  # the end of it is not passed on either
                writer.write(piece)
                await writer.drain()
        if not self.is_lost:
            self.abort()


class LinkRelay:
    """Listens on a port, for a server on another port of this machine."""

    def __init__(
        self, target: int, port: int = 0, client_of: Callable[[int], str] = lambda _: ""
    ) -> None:
        """`client_of`: the name of the client that has the other end of a connection, by its port."""
        self._target, self._client_of = target, client_of
        self._links: dict[str, Link] = {}
        self._looping = LoopThread()
        self.port: int = self._looping.call(self._listen(port))

    async def _listen(self, port: int) -> int:
        self._server = await asyncio.start_server(self._accept, _HOST, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = self._link(self._client_of(writer.get_extra_info("peername")[1]))
        if link.fault is Fault.RESET:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(_HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        RelayedConnection(link, writer, far_writer).start(reader, far_reader)

    def _link(self, client: str) -> Link:
        return self._links.setdefault(client, Link())

    def fail(self, fault: Fault, client: str = "") -> None:
        """Let the link from a client fail in a certain way, until it is mended."""
        self._looping.call(self._link(client).fail(fault))

    def mend(self, client: str = "") -> None:
        self._looping.call(self._link(client).fail(None))

    def close(self) -> None:
        self._looping.call(self._end())
        self._looping.end()

    async def _end(self) -> None:
        self._server.close()
        for link in self._links.values():
            for connection in [*link.connections]:
                connection.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def owner_of(port: int, processes: Mapping[str, int]) -> str:
    """Which of some processes has the socket with this local port; "" if none has it."""
    inode = _inode(port)
    for name, pid in processes.items():
        if inode and _has_open(pid, f"socket:[{inode}]"):
            return name
    return ""


def _inode(port: int) -> str:
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != "0":
            return fields[9]
    return ""


def _has_open(pid: int, file: str) -> bool:
    with contextlib.suppress(OSError):  # it may have ended
        for opened in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if str(opened.readlink()) == file:
                    return True
    return False
