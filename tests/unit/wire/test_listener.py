"""Connections that a listener is given by another process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from pykcp.wire.exchange import Exchange, IncomingRequest
from pykcp.wire.listener import Listener


class Silent:
    """An application that is never asked for anything."""

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return False

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        raise AssertionError("there was no request")


class Counts:
    """What a listener has said about the number of its connections."""

    def __init__(self) -> None:
        self.all: list[int] = []
        self._changed = asyncio.Event()

    def note(self, count: int) -> None:
        self.all.append(count)
        self._changed.set()

    async def until(self, expected: list[int]) -> None:
        """Until it has said this last."""
        async with asyncio.timeout(10):
            while self.all[-len(expected) :] != expected:
                self._changed.clear()
                await self._changed.wait()


async def test_a_connection_counts_from_the_moment_it_is_given() -> None:
    """Otherwise the process that gives connections takes this one for less busy than it is."""
    counts = Counts()
    listener = Listener(Silent())
    listener.open(counts.note)
    ours, theirs = socket.socketpair()
    with ours:
        listener.adopt(theirs)
        assert counts.all == [1]
        await counts.until([2, 1])  # it is open, and not on its way any more
        assert 0 not in counts.all
    await counts.until([1, 0])
    await listener.close()
