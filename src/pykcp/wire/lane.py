"""Deferrable work of connections: done for a few milliseconds at a time, in turn.

Small amounts of input are processed as they arrive. A connection that keeps the event loop busy,
one with long responses, and all handshakes go through the lane instead: they take turns, each
with a bounded amount of work, and between two passes of a few milliseconds the loop serves all
others. However many hostile connections there are, another connection waits for a single pass;
or, if it has to go through the lane as well, for one turn of each owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Protocol

from pykcp.aio.round_robin import RoundRobin

_log = logging.getLogger(__name__)

PASS_SECONDS = 0.002
"""How long the lane holds the loop at a time."""


class LaneWorker(Hashable, Protocol):
    """A connection, or part of one, that takes turns in the lane."""

    @property
    def owner(self) -> str:
        """All workers of an owner have one turn together."""

    def take_turn(self) -> bool:
        """Do a bounded piece of work; whether there is more."""

    def abort(self) -> None:
        """The turn failed."""


class Lane:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: RoundRobin[str, LaneWorker] = RoundRobin()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, worker: LaneWorker) -> None:
        """Queue a worker for a turn. The caller ensures that no worker is queued twice."""
        self._queue.add(worker.owner, worker)
        if not self._is_running:
            self._is_running = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        queue = self._queue
        end = perf_counter() + PASS_SECONDS
        while queue:
            _, worker = queue.take()
            try:
                if worker.take_turn():
                    queue.add(worker.owner, worker)
            except Exception:  # one worker's trouble must not stop the others
                _log.exception("work of a connection failed")
                worker.abort()
            if perf_counter() > end:
                break
        if queue:
            self._loop.call_soon(self._run)
        else:
            self._is_running = False


class Handshakes:
    """One turn in the lane for the handshakes of all addresses, which take turns in it."""

    owner = ""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._waiting: RoundRobin[str, Callable[[], None]] = RoundRobin()
        self._is_in_lane = False

    def add(self, address: str, step: Callable[[], None]) -> None:
        self._waiting.add(address, step)
        if not self._is_in_lane:
            self._is_in_lane = True
            self._lane.add(self)

    def take_turn(self) -> bool:
        self._is_in_lane = True
        _, step = self._waiting.take()
        try:
            step()
        finally:
            self._is_in_lane = bool(self._waiting)
        return self._is_in_lane

    def abort(self) -> None:
        """A step failed; the others go on."""
        if self._waiting:
            self._is_in_lane = True
            self._lane.add(self)
