"""Where requests enter a follower: reads are answered there, everything else goes to the writer.

A read is answered when the follower has every revision that was acknowledged to any client before
the request came. Mostly that is one comparison of numbers in shared memory; otherwise the missing
events are read first.
"""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pykcp.aio.resting import rest
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward, passed_headers
from pykcp.clients.http.client import HttpClient, may_repeat
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.clients.where import PROGRESS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.programs.shard.servers.channel import MessageKind, ProcessChannel
from pykcp.programs.shard.servers.handover import PEER, PeerNames
from pykcp.server.media.answers import send_status
from pykcp.storage.sqlite.following import FollowingStore
from pykcp.virtual.remote import forwarded_call
from pykcp.wire.exchange import Application, Exchange, IncomingRequest
from pykcp.wire.settings import ClientSettings

_READS = frozenset(("GET", "HEAD"))
_ANSWERED = re.compile(r"(?:/clusters/[^/]+)?/(?:apis?|openapi)(?:/|$)").match
"""Paths whose reads need nothing but the store."""
_PODS = re.compile(r"/pods(?:/|$)").search
_OPERATOR = Tenant("")
_STREAMS = 100_000
_ORIGIN = "http://writer"


def is_answered_here(request: IncomingRequest) -> bool:
    """Whether a follower answers a request itself.

    A home workspace is created by reading it (`workspaces/~`), and an escaped path may hide that.
    The progress of the store is reported by the writer.
    """
    path = request.path
    return (
        request.method in _READS
        and _ANSWERED(path) is not None
        and "~" not in path
        and "%" not in path
        and request.header(PROGRESS) is None
    )


class FollowerRequests:
    """The application of a follower."""

    def __init__(
        self,
        front: Application,
        stores: Sequence[FollowingStore],
        writer: WriterConnections,
        has_placed_pods: Callable[[], bool],
    ) -> None:
        """`has_placed_pods`: whether pods of some workspaces run in clusters: the writer has the
        connections to those.
        """
        self._front, self._stores = front, tuple(stores)
        self._has_placed_pods = has_placed_pods
        self._names = PeerNames()
        self._forwarder = Forwarder(writer, Trust.of_files(""))

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._front.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._front.identify(exchange)

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        if request.truncated:  # it is rejected whatever it asks for
            return self._front.handle(exchange)
        if not is_answered_here(request) or (
            _PODS(request.path) is not None and self._has_placed_pods()
        ):
            return self._hand_over(exchange)
        names_revision = "resourceVersion" in request.query
        for store in self._stores:
            if not (store.refresh_committed() if names_revision else store.refresh()):
                return self._answer_later(exchange)
        return self._front.handle(exchange)

    async def _answer_later(self, exchange: Exchange) -> None:
        """There are many events to read first."""
        for store in self._stores:
            while not store.refresh_committed():
                await rest()
        pending = self._front.handle(exchange)
        if pending is not None:
            await pending

    def _hand_over(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        headers = [header for header in passed_headers(request.headers) if header[0] != PEER]
        headers.append(self._names.header(request.peer))
        query = f"?{request.query}" if request.query else ""
        onward = Onward(f"{_ORIGIN}{request.path}{query}", headers, _OPERATOR)
        try:
            if self._forwarder.start(exchange, onward, partial(self._forward, exchange, onward)):
                return None
        except SendFailed:
            pass  # it is answered below
        return self._forward(exchange, onward)

    async def _forward(
        self, exchange: Exchange, onward: Onward, failed: SendFailed | None = None
    ) -> None:
        try:
            await self._forwarder.forward(exchange, onward, failed)
        except SendFailed as error:
            if exchange.responded:
                raise
            # Clients send it again after this pause, so there is none if it may have been done.
            pause = 1 if may_repeat(error, exchange.request.method, is_reused=True) else None
            refusal = ServiceUnavailable(f"the server is stopping: {error}", retry_after=pause)
            send_status(forwarded_call(exchange), refusal)


class WriterConnections:
    """Connections to the writer: a new one is a pair of sockets, one of which is sent there."""

    def __init__(self, channel: ProcessChannel) -> None:
        self._channel = channel
        server = Server("http", "writer", 80, connect=self._connect)
        settings = ClientSettings(max_streams=_STREAMS, reset_rate=_STREAMS, reset_burst=_STREAMS)
        self._client = HttpClient(server, settings)

    def _connect(self) -> socket.socket:
        """Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            if not self._channel.send(MessageKind.WRITER, theirs):
                ours.close()
                raise ConnectionRefusedError("the writer accepts no connection")
        return ours

    @asynccontextmanager
    async def borrow(self, server: Server, tenant: Tenant) -> AsyncIterator[HttpClient]:
        yield self._client

    def ready(self, server: Server) -> HttpClient | None:
        return self._client

    def close(self) -> None:
        self._client.close()
