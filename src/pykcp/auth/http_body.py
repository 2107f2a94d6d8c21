"""Reads responses of untrusted servers with a limit on their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def read_at_most(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """The body; None if it is longer, and then the connection is gone."""
    body = bytearray()
    while not response.content.at_eof():
        body += await response.content.read(limit + 1 - len(body))
        if len(body) > limit:
            connection = response.connection
            transport = connection.transport if connection is not None else None
            if transport is not None:
                transport.abort()
            return None
    return bytes(body)
