"""Requests over HTTP/1.1, with aiohttp."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from pykcp.clients.remote.transport import RemoteResponse, TransportError

if TYPE_CHECKING:
    import aiohttp

_CHUNK = 1 << 16
_IDLE_SECONDS = 90.0
"""A watch is not silent for longer: bookmarks come every minute."""


class Http1Transport:
    """`close` it at the end; connections open with the first request."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str = "") -> None:
        self._server, self._tls, self._server_name = server, tls, server_name
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncIterator[RemoteResponse]:
        from yarl import URL

        session = self._opened()
        with _translated():
            async with session.request(
                method,
                URL(self._server + target, encoded=True),
                headers=headers,
                data=body or None,
                ssl=self._tls if self._tls is not None else True,
                server_hostname=self._server_name or None,
                allow_redirects=False,
            ) as response:
                yield _Http1Response(response)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=30.0, sock_read=_IDLE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _Http1Response:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    async def read(self) -> bytes:
        return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        with _translated():
            async for chunk in self._response.content.iter_chunked(_CHUNK):
                yield chunk


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the library as TransportError; those of the caller's block as they are."""
    import aiohttp

    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise TransportError(str(error), was_sent=False) from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise TransportError(str(error) or type(error).__name__) from error
