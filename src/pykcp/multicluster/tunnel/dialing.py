"""The side of the syncer: it keeps connections to the control plane open, and serves on them."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.interface import OutgoingRequest, OutgoingStream
from pykcp.clients.remote.client import RemoteClient
from pykcp.multicluster.tunnel import IDLE_SECONDS, PROTOCOL, SERVER_HEADER, SERVERS_HEADER
from pykcp.multicluster.tunnel.bridge import SocketBridge
from pykcp.wire.exchange import Header

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0
_WAITING = 2
"""Connections that wait for requests at each server."""
_MOST_SERVERS = 4
_MOST_REJECTED = 20
_SOON = 0.1
"""Seconds until another connection is tried that may lead to another server."""
_SILENCE = 1.5 * IDLE_SECONDS
"""After which an unused connection counts as lost: the control plane closes it earlier."""
_ANSWER_SECONDS = 30.0


class _Dialled:
    """One connection; an `AnswerHandler` of the request that it began with."""

    def __init__(self) -> None:
        self.stream: OutgoingStream | None = None
        self.switched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_used = asyncio.Event()
        """The control plane sends a request, or has closed the connection."""
        self.is_over = False
        self.server, self.servers = "", 1
        self.bridge: SocketBridge | None = None
        self._early: list[bytes] = []

    # --- what comes from the control plane

    def head_received(self, status: int, headers: Sequence[Header]) -> None:
        if self.switched.done():
            return
        if status == 101:
            found = dict(headers)
            self.server = found.get(SERVER_HEADER, "")
            servers = found.get(SERVERS_HEADER, "")
            self.servers = int(servers) if servers.isdecimal() else 1
            self.switched.set_result(None)
        else:
            self.switched.set_exception(SendFailed(f"the control plane answered {status}"))

    def data_received(self, data: bytes) -> None:
        if self.bridge is None:
            self._early.append(data)
            self.is_used.set()
        else:
            self.bridge.take(data)

    def ended(self, trailers: Sequence[Header]) -> None:
        self._finish(SendFailed("the connection was closed"))

    def failed(self, error: SendFailed) -> None:
        self._finish(error)

    def _finish(self, error: SendFailed) -> None:
        self.is_over = True
        if not self.switched.done():
            self.switched.set_exception(error)
        self.is_used.set()
        if self.bridge is not None:
            self.bridge.close()

    def relieved(self) -> None:
        if self.bridge is not None:
            self.bridge.relieved()

    # --- what goes to it, see `FarEnd`

    @property
    def backlog(self) -> int:
        return self.stream.backlog if self.stream is not None else 0

    def write(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.write(data)

    def end(self) -> None:
        """Close it when everything has gone out."""
        if self.stream is not None and not self.is_over:
            self.is_over = True
            self.stream.end()

    def consumed(self, size: int) -> None:
        if self.stream is not None:
            self.stream.consumed(size)

    async def connect(self, near: socket.socket) -> None:
        """Pass on what came already, and all that follows."""
        self.bridge = SocketBridge(self)
        await self.bridge.open(near)
        early, self._early = self._early, []
        for data in early:
            self.bridge.take(data)


class WaitingConnections:
    """How many connections wait at each server of the control plane.

    Behind one address there may be several servers, and each carries requests on connections of its
    own only. Which one a new connection leads to is not ours to choose: it is closed again if it
    leads to one that has enough while others have none, up to a number of times.
    """

    def __init__(self) -> None:
        self.servers = 1
        self._counts: Counter[str] = Counter()
        self._rejected = 0

    def set_servers(self, count: int) -> bool:
        """Whether it is another number than before."""
        before, self.servers = self.servers, min(max(1, count), _MOST_SERVERS)
        return self.servers != before

    def accepts(self, server: str) -> bool:
        reached = sum(1 for count in self._counts.values() if count)
        is_surplus = self._counts[server] >= _WAITING and reached < self.servers
        self._rejected = self._rejected + 1 if is_surplus else 0
        if self._rejected > _MOST_REJECTED:
            self._rejected = 0
            return True
        return not is_surplus

    @contextmanager
    def one(self, server: str) -> Iterator[None]:
        """While a connection waits."""
        self._counts[server] += 1
        try:
            yield
        finally:
            self._counts[server] -= 1
            if not self._counts[server]:
                del self._counts[server]


class TunnelDialer:
    """`run` it."""

    def __init__(
        self, client: RemoteClient, path: str, serve: Callable[[socket.socket], None]
    ) -> None:
        """`path`: of the control plane; `serve`: given a socket on which requests arrive."""
        self._client, self._path, self._serve = client, path, serve

        self._waiting = WaitingConnections()
        self._changed = asyncio.Event()
        """There are more servers, or fewer."""

    async def run(self) -> None:
        """Until cancelled."""
        kept = 0
        async with TaskOwner("tunnel") as owner:
            while True:
                self._changed.clear()
                wanted = _WAITING * self._waiting.servers
                for number in range(kept, wanted):
                    owner.start_restartable(f"connection-{number}", self._keep)
                for number in range(wanted, kept):
                    await owner.stop_one(f"connection-{number}")
                kept = wanted
                await self._changed.wait()

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                is_needed = await self._offer()
                pause = _FIRST_PAUSE
                if not is_needed:
                    await asyncio.sleep(_SOON * (0.5 + random.random()))  # noqa: S311
                continue
            except (SendFailed, TimeoutError) as error:
                level = logging.DEBUG if pause > _FIRST_PAUSE else logging.WARNING
                _log.log(level, "no tunnel to the control plane: %s", error)
            await asyncio.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311
            pause = min(2 * pause, _LAST_PAUSE)

    async def _offer(self) -> bool:
        """Open a connection and wait until it is used, or has waited for long enough. False if it
        led to a server that has enough of them, and others have none.
        """
        client, dialled = self._client, _Dialled()
        session = await client.http.own_session()
        request = OutgoingRequest("GET", self._path, client.headers("*/*"), upgrade=PROTOCOL)
        dialled.stream = session.start(request, dialled)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await dialled.switched
            if self._waiting.set_servers(dialled.servers):
                self._changed.set()
            if not self._waiting.accepts(dialled.server):
                dialled.stream.cancel()
                return False
            with self._waiting.one(dialled.server):
                async with asyncio.timeout(_SILENCE):
                    await dialled.is_used.wait()
        except BaseException:
            dialled.stream.cancel()
            raise
        if not dialled.is_over:
            near, served = socket.socketpair()
            self._serve(served)
            await dialled.connect(near)
        return True
