"""Connections to a server that the operator chose: one TLS context, no limits but the server's."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pykcp.clients.outbound import Tenant, in_go_words

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL


class Connections(Protocol):
    """A way to servers: `Direct`, or `Outbound` for those that tenants chose."""

    def open(
        self, url: URL, tenant: Tenant, *, method: str, **options: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]: ...

    def seat(
        self, url: URL, tenant: Tenant
    ) -> AbstractAsyncContextManager[aiohttp.ClientSession]: ...


class Direct:
    """`run` it: the connections are closed at its end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(
        self, url: URL, tenant: Tenant, *, method: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self.seat(url, tenant) as session:
            with in_go_words(url):
                async with session.request(
                    method, url, allow_redirects=False, **options
                ) as response:
                    yield response

    @asynccontextmanager
    async def seat(self, url: URL, tenant: Tenant) -> AsyncIterator[aiohttp.ClientSession]:
        if self._session is None:
            from pykcp.clients.sessions import direct_session

            self._session = direct_session()
        yield self._session

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._session is not None:
                await self._session.close()


def verified(authority_file: str, certificate: str = "", key: str = "") -> ssl.SSLContext:
    """TLS with servers of an authority, or of the system's, and with a certificate of our own."""
    context = ssl.create_default_context(cafile=authority_file or None)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context
