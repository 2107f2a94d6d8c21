"""aiohttp's part of outgoing requests: sessions without cookies, proxies and compression."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from pykcp.caching import BoundedCache
from pykcp.clients.destinations import Address, host_key

_KEPT = 8192
_MAX_IDLE = 256
_CONNECT_SECONDS = 30.0
_MAX_HEADER = 16 * 1024
_BUFFER = 1 << 16


class Pinned(AbstractResolver):
    """Knows the addresses that were allowed, and no others: nothing is looked up again."""

    def __init__(self) -> None:
        self._addresses: BoundedCache[str, Sequence[Address]] = BoundedCache("", _KEPT)

    def pin(self, host: str, addresses: Sequence[Address]) -> None:
        self._addresses.put(host_key(host), addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = self._addresses.get(host_key(host))
        if not addresses:
            raise OSError(f"{host} has no address that is allowed")
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "family": socket.AF_INET if address.version == 4 else socket.AF_INET6,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in addresses
            if family in (socket.AF_UNSPEC, _family(address))
        ]

    async def close(self) -> None:
        self._addresses.clear()


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def may_keep(session: aiohttp.ClientSession) -> bool:
    """Whether another connection may stay open for later; tenants could choose any number."""
    connector = session.connector
    return connector is None or sum(map(len, connector._conns.values())) < _MAX_IDLE


def tenant_session(resolver: AbstractResolver) -> aiohttp.ClientSession:
    """For addresses chosen by tenants. The number of connections is limited by `shares`."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=resolver,
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=90,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        trust_env=False,
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        max_line_size=_MAX_HEADER,
        max_field_size=_MAX_HEADER,
        read_bufsize=_BUFFER,
    )
