"""A share of the event loop for data from servers that tenants chose, which may send without end.

    pace = ReadingPace(tenant)
    async for piece in …:
        …  # some work
        if pace.is_due():
            await pace.rest()

While others have requests in progress, one tenant has a fifth of the loop's time for this, and all
tenants together have half of it. At other times the tenants only take turns.
"""

from __future__ import annotations

import asyncio
import weakref
from time import perf_counter

from pykcp.aio.turns import Turns, heavy_turn, turns_of

_SLICE = 0.002
_OF_TENANT, _OF_ALL = 4.0, 1.0
"""How many times as long as its work a tenant rests, and all of them together."""
_LONGEST = 1.0
_MANY = 1024


class ReadingPace:
    __slots__ = ("_began", "_tenant")

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._began = perf_counter()

    def begin(self) -> None:
        """Work begins now; until now there was nothing to do."""
        self._began = perf_counter()

    def is_due(self) -> bool:
        return perf_counter() - self._began > _SLICE

    async def rest(self) -> None:
        took = perf_counter() - self._began
        await asyncio.sleep(_shares().delay(self._tenant, took))
        async with heavy_turn(self._tenant):
            self._began = perf_counter()


class _Shares:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._all = 0.0
        self._tenants: dict[str, float] = {}
        """The time until which a tenant has used up its share."""

    def delay(self, tenant: str, took: float) -> float:
        """Seconds to rest after work that took so long."""
        now = perf_counter()
        if not self._turns.contended():
            return 0.0
        if len(self._tenants) > _MANY:
            self._tenants = {name: until for name, until in self._tenants.items() if until > now}
        own = max(now, self._tenants.get(tenant, 0.0)) + took * _OF_TENANT
        self._tenants[tenant] = own
        self._all = max(now, self._all) + took * _OF_ALL
        return min(max(own, self._all) - now, _LONGEST)


def _shares() -> _Shares:
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = _Shares(turns_of(loop))
    return found


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Shares] = (
    weakref.WeakKeyDictionary()
)
