"""Connections to servers that the operator chose: no limits but the servers' own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.pool import ClientPool
from pykcp.clients.outbound import Tenant
from pykcp.wire.settings import WITHIN_INSTALLATION, ClientSettings


class Direct:
    """`run` it: the connections are closed at its end."""

    def __init__(self, settings: ClientSettings = WITHIN_INSTALLATION) -> None:
        self._pool = ClientPool(settings)

    @asynccontextmanager
    async def borrow(self, server: Server, tenant: Tenant) -> AsyncIterator[HttpClient]:
        """The client of a server."""
        yield self._pool.client(server)

    def ready(self, server: Server) -> HttpClient | None:
        return self._pool.client(server)

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        try:
            await asyncio.Event().wait()
        finally:
            self._pool.close()


class OneServer:
    """The connections of a forwarder that knows one server only."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    @asynccontextmanager
    async def borrow(self, server: Server, tenant: Tenant) -> AsyncIterator[HttpClient]:
        yield self._http

    def ready(self, server: Server) -> HttpClient | None:
        return self._http
