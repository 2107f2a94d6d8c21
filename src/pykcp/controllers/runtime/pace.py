"""Lets others on the event loop go on, in loops over what tenants have made."""

from __future__ import annotations

from time import perf_counter

from pykcp.aio.turns import heavy_turn

_FREE, _SLICE = 0.001, 0.004
"""Seconds until the first pause, and between pauses."""


class Pace:
    """`await pace.keep()` in a loop: it waits for a turn whenever a slice of time is used up."""

    __slots__ = ("_deadline", "_tenant")

    def __init__(self, tenant: str = "") -> None:
        """`tenant`: whose work it is. Turns are taken by tenant."""
        self._tenant = tenant
        self._deadline = perf_counter() + _FREE

    async def keep(self) -> None:
        if perf_counter() >= self._deadline:
            async with heavy_turn(self._tenant):
                self._deadline = perf_counter() + _SLICE
