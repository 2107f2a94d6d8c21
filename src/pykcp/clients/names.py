"""Addresses of host names that tenants chose.

The system's resolver blocks its thread for as long as a tenant's name server likes. So
lookups have threads of their own, few, shared fairly; callers stop waiting when their time
is up, and what was found is remembered for a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pykcp.caching import BoundedCache
from pykcp.clients.destinations import Address, host_key
from pykcp.clients.shares import Shares

THREADS = 64
REMEMBERED = 1024
FOUND_SECONDS = 10.0
MISSING_SECONDS = 2.0
_MAX_NAME = 253
_MAX_ADDRESSES = 16

GetAddresses: TypeAlias = Callable[[str], list[str]]
Outcome: TypeAlias = "tuple[Address, ...] | OSError"


def system_addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class HostNames:
    def __init__(
        self,
        get_addresses: GetAddresses = system_addresses,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get_addresses, self._clock = get_addresses, clock
        self._threads = Shares(THREADS)
        self._known: BoundedCache[str, tuple[float, Outcome]] = BoundedCache(
            "host-names", REMEMBERED
        )
        self._under_way: dict[str, asyncio.Future[Outcome]] = {}

    async def look_up(self, host: str, keys: Sequence[str]) -> tuple[Address, ...]:
        """The addresses of a host, in the resolver's order. Raises OSError, TooManyWaiting.

        `keys`: for whom, as `Shares` counts them.
        """
        host = host_key(host)
        with contextlib.suppress(ValueError):
            return (ipaddress.ip_address(host),)
        if not host or len(host) > _MAX_NAME:
            raise socket.gaierror(socket.EAI_NONAME, "not a host name")
        known = self._known.get(host)
        if known is not None and self._clock() < known[0]:
            return _found(known[1])
        if host not in self._under_way:
            await self._threads.take(keys)
            if host in self._under_way:  # by another request, while this one waited
                self._threads.release(keys)
            else:
                self._start(host, keys)
        return _found(await asyncio.shield(self._under_way[host]))

    def _start(self, host: str, keys: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        self._under_way[host] = loop.create_future()

        def resolve() -> None:
            outcome: Outcome
            try:
                found = dict.fromkeys(self._get_addresses(host))
                outcome = tuple(ipaddress.ip_address(a) for a in list(found)[:_MAX_ADDRESSES])
            except OSError as error:
                outcome = error
            except ValueError as error:  # a name that cannot be encoded
                outcome = socket.gaierror(socket.EAI_NONAME, str(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._finish, host, keys, outcome)

        # A daemon: a name server that does not answer must not hold up the end of the process.
        threading.Thread(target=resolve, name=f"lookup {host[:40]}", daemon=True).start()

    def _finish(self, host: str, keys: Sequence[str], outcome: Outcome) -> None:
        seconds = MISSING_SECONDS if isinstance(outcome, OSError) else FOUND_SECONDS
        self._known.put(host, (self._clock() + seconds, outcome))
        self._threads.release(keys)
        self._under_way.pop(host).set_result(outcome)


def _found(outcome: Outcome) -> tuple[Address, ...]:
    if isinstance(outcome, OSError):
        raise socket.gaierror(outcome.errno or socket.EAI_NONAME, outcome.strerror or "no address")
    if not outcome:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return outcome
