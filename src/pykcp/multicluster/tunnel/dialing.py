"""The side of the syncer: it keeps connections to the control plane open, and serves on them."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Sequence

from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.interface import OutgoingRequest, OutgoingStream
from pykcp.clients.remote.client import RemoteClient
from pykcp.multicluster.tunnel import IDLE_SECONDS, PROTOCOL
from pykcp.multicluster.tunnel.bridge import SocketBridge
from pykcp.wire.exchange import Header

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0
_WAITING = 2
"""Connections that wait for requests."""
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
        self.bridge: SocketBridge | None = None
        self._early: list[bytes] = []

    # --- what comes from the control plane

    def head_received(self, status: int, headers: Sequence[Header]) -> None:
        if self.switched.done():
            return
        if status == 101:
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


class TunnelDialer:
    """`run` it."""

    def __init__(
        self, client: RemoteClient, path: str, serve: Callable[[socket.socket], None]
    ) -> None:
        """`path`: of the control plane; `serve`: given a socket on which requests arrive."""
        self._client, self._path, self._serve = client, path, serve

    async def run(self) -> None:
        """Until cancelled."""
        async with TaskOwner("tunnel") as owner:
            for number in range(_WAITING):
                owner.start_restartable(f"connection-{number}", self._keep)
            await asyncio.Event().wait()

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._offer()
                pause = _FIRST_PAUSE
                continue
            except (SendFailed, TimeoutError) as error:
                level = logging.DEBUG if pause > _FIRST_PAUSE else logging.WARNING
                _log.log(level, "no tunnel to the control plane: %s", error)
            await asyncio.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311
            pause = min(2 * pause, _LAST_PAUSE)

    async def _offer(self) -> None:
        """Open a connection and wait until it is used, or has waited for long enough."""
        client, dialled = self._client, _Dialled()
        session = await client.http.own_session()
        request = OutgoingRequest("GET", self._path, client.headers("*/*"), upgrade=PROTOCOL)
        dialled.stream = session.start(request, dialled)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await dialled.switched
            async with asyncio.timeout(_SILENCE):
                await dialled.is_used.wait()
        except BaseException:
            dialled.stream.cancel()
            raise
        if not dialled.is_over:
            near, served = socket.socketpair()
            self._serve(served)
            await dialled.connect(near)
