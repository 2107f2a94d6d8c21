"""Requests to servers that the operator configured: webhooks, issuers, the audit webhook.

They may go through an HTTP proxy, which is why aiohttp carries them; see `http` for the client
that carries everything else.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pykcp.clients.errors import LostConnection, SendFailed

if TYPE_CHECKING:
    import aiohttp

_CHUNK = 1 << 16


class OperatorAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in any case."""
    body: bytes | None
    """None: longer than the limit."""
    urls: tuple[str, ...]
    """Where it was found, with all redirects that were followed."""


class OperatorSession:
    """Connections to one server, which open with the first request; `close` them."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, seconds: float | None = None, connections: int = 0
    ) -> None:
        """`tls`: None for the system's authorities. `seconds`: for a whole request."""
        self._tls, self._seconds, self._connections = tls, seconds, connections
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes | None = None,
        *,
        limit: int,
        follows_redirects: bool = False,
        proxy: str = "",
        server_name: str = "",
    ) -> OperatorAnswer:
        """Raises SendFailed, TimeoutError."""
        import aiohttp

        try:
            async with self._open().request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=follows_redirects,
                proxy=proxy or None,
                server_hostname=server_name or None,
            ) as response:
                content = await _read_at_most(response, limit)
                urls = tuple(str(one.url) for one in (*response.history, response))
                return OperatorAnswer(response.status, response.headers, content, urls)
        except TimeoutError:
            raise
        except (ConnectionResetError, aiohttp.ServerDisconnectedError) as error:
            raise LostConnection("connection was reset") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SendFailed(str(error) or type(error).__name__) from error

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls or True, limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read_at_most(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """The body; None if it is longer, and then the connection is gone."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > limit:
            connection = response.connection
            transport = connection.transport if connection is not None else None
            if transport is not None:
                transport.abort()
            return None
    return bytes(body)
