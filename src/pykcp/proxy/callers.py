"""How many requests of one caller are under way: no caller's flood is in another's way.

All requests of a proxy to a shard share a connection, so that whatever one caller has sent is
before what others send next. A caller therefore has a number of seats at each server: a request
has one until its answer begins, and the requests beyond wait for each other in their order. There
is no limit for all callers together, nor for all servers: requests that wait for an unresponsive
shard or webhook take no seat of anybody else, and the caller goes on at other shards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykcp.auth.user import User
from pykcp.server.filters.flow_control import TooBusy
from pykcp.wire.exchange import IncomingRequest

Caller = tuple[str, str]
"""Who asks, and which server; "" for the proxy itself."""


def caller_of(request: IncomingRequest, user: User | None, server: str = "") -> Caller:
    """The user; the address while it is not known here who it is."""
    return (user.name if user is not None else f"[{request.peer.address}]", server)


class CallerSeats:
    def __init__(self, most: int, most_waiting: int) -> None:
        """Both for each caller."""
        self._most, self._most_waiting = most, most_waiting
        self._taken: dict[Caller, int] = {}
        self._waiting: dict[Caller, deque[asyncio.Future[None]]] = {}

    def take(self, caller: Caller) -> bool:
        """A seat, if there is one now."""
        taken = self._taken.get(caller, 0)
        if taken >= self._most:
            return False
        self._taken[caller] = taken + 1
        return True

    async def wait(self, caller: Caller) -> None:
        """For a seat. Raises TooBusy."""
        if self.take(caller):
            return
        queue = self._waiting.setdefault(caller, deque())
        if len(queue) >= self._most_waiting:
            raise TooBusy
        seated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(seated)
        try:
            await seated
        except asyncio.CancelledError:
            if not seated.cancelled():
                self.release(caller)  # it got its seat in the same moment
            raise

    def release(self, caller: Caller) -> None:
        """Give a seat back, or to the next request of the caller."""
        queue = self._waiting.get(caller)
        while queue:
            seated = queue.popleft()
            if not queue:
                del self._waiting[caller]
            if not seated.done():
                seated.set_result(None)
                return
        left = self._taken[caller] - 1
        if left:
            self._taken[caller] = left
        else:
            del self._taken[caller]

    @asynccontextmanager
    async def seat(self, caller: Caller) -> AsyncIterator[None]:
        """Raises TooBusy."""
        await self.wait(caller)
        try:
            yield
        finally:
            self.release(caller)

    @property
    def is_idle(self) -> bool:
        """Whether no state is kept."""
        return not (self._taken or self._waiting)
