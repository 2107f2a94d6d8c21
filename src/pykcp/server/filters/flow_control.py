"""API fairness: one tenant's flood does not starve the others.

Two things are shared out:

* *time on the event loop*, which is what all wait for (`flow_meter`): every request is measured,
  and those of users and clusters that had more than their share go on behind all others;
* *seats* for requests that are under way for longer, of four sorts with seats of their own
  (`flow_queue`): reads that have to wait for something, writes, long requests (lists without a
  small page size, deletions of collections, the beginnings of watches, OpenAPI documents) and
  signing in. GETs of objects are answered at once and need none.

Requests without a seat wait in a queue of their user; if there is no room in it (`flow_room`),
or they wait too long, the answer is a 429 in upstream's words. Members of system:masters are
exempt, as upstream, and measured all the same. Open watches cost no seat; they are counted per
user and per cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pykcp.aio.timers import call_later
from pykcp.aio.turns import turns_of
from pykcp.observe.metrics import LabelValues, Registry
from pykcp.server.call import Call
from pykcp.server.filters.flow_cost import CostAccount, CostLimits
from pykcp.server.filters.flow_meter import CostMeter
from pykcp.server.filters.flow_metrics import FlowMetrics, PriorityLevel
from pykcp.server.filters.flow_queue import FairQueue, SeatLimits
from pykcp.server.filters.flow_report import report
from pykcp.server.filters.flow_room import RoomLimits, WaitingRoom
from pykcp.server.media.answers import PlainError

SMALL_PAGE = 500
_EXEMPT: LabelValues = ("exempt", "exempt")
_BACKGROUND: LabelValues = ("background", "background")
_READS = frozenset(("get", "list"))

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FlowSettings:
    writes: SeatLimits = field(default_factory=SeatLimits)
    reads: SeatLimits = field(default_factory=lambda: SeatLimits(seats=128))
    long: SeatLimits = field(default_factory=lambda: SeatLimits(seats=8))
    sign_in: SeatLimits = field(default_factory=lambda: SeatLimits(seats=64))
    seat_timeout: float = 10.0
    """Seconds after which the seat of a read is released, so that a slow reader does not block others."""
    costs: CostLimits = field(default_factory=CostLimits)
    room: RoomLimits = field(default_factory=RoomLimits)
    watch_room: RoomLimits = field(
        default_factory=lambda: RoomLimits(2048, 8 << 20, of_cluster=2, in_all=4)
    )
    """For watches that begin: a program opens many at once, and they are counted anyway."""
    wait: float = 15.0
    """Seconds that a request may wait for a seat, or for others."""
    watches_per_user: int = 4000
    """Open watches of one user, over all clusters."""
    watches_per_cluster: int = 8000


class TooBusy(PlainError):
    """429, as upstream words it and in plain text."""

    code, reason = 429, "TooManyRequests"

    def __init__(self) -> None:
        super().__init__("Too many requests, please try again later.", retry_after=1)


class _Seat:
    """A seat that is released exactly once."""

    __slots__ = ("_cluster", "_is_left", "_queue", "_user", "since")

    def __init__(self, queue: FairQueue, user: str, cluster: str) -> None:
        self._queue, self._user, self._cluster = queue, user, cluster
        self._is_left = False
        self.since = time.monotonic()

    def leave(self) -> None:
        if not self._is_left:
            self._is_left = True
            self._queue.finish(self._user, self._cluster)


class FlowControl:
    def __init__(self, settings: FlowSettings, metrics: Registry) -> None:
        self._settings = settings
        self._reads = PriorityLevel("reads", FairQueue(settings.reads), is_timed=True)
        self._writes = PriorityLevel("writes", FairQueue(settings.writes))
        self._long = PriorityLevel("long", FairQueue(settings.long), is_timed=True)
        self._sign_in = PriorityLevel("sign-in", FairQueue(settings.sign_in))
        self._levels = (self._reads, self._writes, self._long, self._sign_in)
        self._room = WaitingRoom(settings.room)
        self._watch_room = WaitingRoom(settings.watch_room)
        self.meter = CostMeter(settings.costs)
        self._background = self.meter.background
        self._held_seats: dict[_Seat, None] = {}
        self._is_sweeping = self._has_turns = False
        self._watches_of_user: Counter[str] = Counter()
        self._watches_of_cluster: Counter[str] = Counter()
        held = (_BACKGROUND, lambda: len(self._background))
        self._metrics = FlowMetrics(metrics, self._levels, held, self.meter.totals)

    # -- the chain's side ----------------------------------------------------------------------

    async def sign_in(self, call: Call, pending: Coroutine[Any, Any, Result]) -> Result:
        """Find out who asks, in a seat that is counted by address."""
        payer = self.meter.address_of(call)
        return await self._seated(self._sign_in, call, payer, payer.name, pending)

    def govern(self, call: Call, pending: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """The same work, done when it has a seat."""
        payer = call.payer
        if payer is None or not payer.weight:
            self._metrics.dispatched.add(_EXEMPT)
            return pending
        if not self._has_turns:
            self._has_turns = True
            turns_of(asyncio.get_running_loop()).contended = self.meter.is_contended
        if call.info.verb == "watch":
            return self._watch(call, payer, pending)
        return self._seated(self._level_of(call), call, payer, call.cluster, pending)

    def describe(self) -> str:
        """Who has cost most lately, and who waits: for operators."""
        watches = (self._watches_of_user, self._watches_of_cluster)
        rooms = (self._room, self._watch_room)
        return report(self.meter, self._levels, rooms, watches)

    # -- seats ---------------------------------------------------------------------------------

    async def _seated(
        self,
        level: PriorityLevel,
        call: Call,
        payer: CostAccount,
        cluster: str,
        pending: Coroutine[Any, Any, Result],
    ) -> Result:
        queue, user = level.queue, payer.name
        try:
            has_waited = not queue.start(user, cluster)
            if has_waited:
                await self._wait_for_seat(level, call, payer, cluster)
            if (has_waited or not call.was_delayed) and not self.meter.admits_now(call):
                # The user is indebted by now, by requests that came with this one.
                await self._wait_in_seat(queue, call, user, cluster)
        except BaseException:
            pending.close()
            raise
        self._metrics.dispatched.add(level.label)
        if level.is_timed:
            return await self._keep_for_a_while(_Seat(queue, user, cluster), pending)
        try:
            return await pending
        finally:
            queue.finish(user, cluster)

    async def _wait_in_seat(self, queue: FairQueue, call: Call, user: str, cluster: str) -> None:
        try:
            await self.wait_for_others(call)
        except BaseException:
            queue.finish(user, cluster)
            raise

    async def _wait_for_seat(
        self, level: PriorityLevel, call: Call, payer: CostAccount, cluster: str
    ) -> None:
        loop = asyncio.get_running_loop()
        seated: asyncio.Future[bool] = loop.create_future()
        user, queue = payer.name, level.queue
        began = time.perf_counter()
        size = self._take_room(level.label, call, payer, cluster)
        waiting = queue.wait(user, cluster, lambda: _answer(seated, True))

        def give_up() -> None:
            if queue.abandon(waiting):
                _answer(seated, False)

        timer = loop.call_later(self._settings.wait, give_up)
        try:
            has_seat = await seated
        except asyncio.CancelledError:
            if not queue.abandon(waiting):
                queue.finish(user, cluster)  # it got its seat too late
            raise
        finally:
            timer.cancel()
            self._room_of(call).leave(user, cluster, size)
        self._metrics.waited(level.label, has_seat, time.perf_counter() - began)
        if not has_seat:
            raise self._rejection(level.label, call, payer, "time-out")

    async def _keep_for_a_while(self, seat: _Seat, pending: Coroutine[Any, Any, Result]) -> Result:
        """A seat until the work is done, but not for ever."""
        self._held_seats[seat] = None
        if not self._is_sweeping:
            self._is_sweeping = True
            call_later(self._settings.seat_timeout, self._sweep)
        try:
            return await pending
        finally:
            del self._held_seats[seat]
            seat.leave()

    def _sweep(self) -> None:
        """One timer for all seats, and none while no seat is in use."""
        oldest = time.monotonic() - self._settings.seat_timeout
        for seat in [seat for seat in self._held_seats if seat.since <= oldest]:
            seat.leave()
        self._is_sweeping = bool(self._held_seats)
        if self._is_sweeping:
            call_later(self._settings.seat_timeout / 4, self._sweep)

    def _level_of(self, call: Call) -> PriorityLevel:
        if _is_long(call):
            return self._long
        return self._reads if call.info.verb in _READS else self._writes

    # -- waiting -------------------------------------------------------------------------------

    async def wait_for_others(self, call: Call) -> None:
        """In the background, until the loop has time for this request."""
        payer = call.payer or self.meter.address_of(call)
        began = time.perf_counter()
        # Who may not be in a cluster, or is not known yet, must not take up its room.
        cluster = call.cluster if call.is_authorized else payer.name
        lane = call.cluster if call.payer else str(id(call.exchange.request.peer))
        size = self._take_room(_BACKGROUND, call, payer, cluster)
        call.was_delayed = True
        try:
            goes_on = await self._background.wait(payer, lane, self._settings.wait)
        finally:
            self._room_of(call).leave(payer.name, cluster, size)
        self._metrics.waited(_BACKGROUND, goes_on, time.perf_counter() - began)
        if not goes_on:
            raise self._rejection(_BACKGROUND, call, payer, "time-out")

    def _room_of(self, call: Call) -> WaitingRoom:
        return self._watch_room if call.info.verb == "watch" else self._room

    def _take_room(self, label: LabelValues, call: Call, payer: CostAccount, cluster: str) -> int:
        """Room to wait in; the octets that the request occupies there. Raises TooBusy."""
        size = len(call.exchange.request.body)
        if not self._room_of(call).enter(payer.name, cluster, size):
            raise self._rejection(label, call, payer, "queue-full")
        return size

    def _rejection(
        self, label: LabelValues, call: Call, payer: CostAccount, reason: str
    ) -> TooBusy:
        payer.rejected += 1
        if call.is_authorized and call.cluster_payer is not None:
            call.cluster_payer.rejected += 1
        self._metrics.rejected.add((*label, reason))
        return TooBusy()

    # -- watches -------------------------------------------------------------------------------

    async def _watch(
        self, call: Call, payer: CostAccount, pending: Coroutine[Any, Any, None]
    ) -> None:
        """A seat for the beginning, and one of the user's watches until its stream is over."""
        user, cluster = payer.name, call.cluster
        if (
            self._watches_of_user[user] >= self._settings.watches_per_user
            or self._watches_of_cluster[cluster] >= self._settings.watches_per_cluster
        ):
            pending.close()
            raise self._rejection(self._long.label, call, payer, "concurrency-limit")
        self._watches_of_user[user] += 1
        self._watches_of_cluster[cluster] += 1
        try:
            await self._seated(self._long, call, payer, cluster, pending)
        except BaseException:
            self._watch_over(user, cluster)
            raise
        if call.stream is None:
            self._watch_over(user, cluster)
        else:
            call.stream.on_close(lambda: self._watch_over(user, cluster))

    def _watch_over(self, user: str, cluster: str) -> None:
        for counts, name in ((self._watches_of_user, user), (self._watches_of_cluster, cluster)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]


def _answer(seated: asyncio.Future[bool], has_seat: bool) -> None:
    if not seated.done():
        seated.set_result(has_seat)


def _is_long(call: Call) -> bool:
    verb = call.info.verb
    if verb == "list":
        return not _is_small_page(call)
    return verb == "deletecollection" or call.info.path.startswith("/openapi")


def _is_small_page(call: Call) -> bool:
    """A page of a few objects, or one object by its name."""
    info = call.info
    if not info.query:
        return False
    limit = info.param("limit")
    if limit.isdigit() and len(limit) < 6 and 0 < int(limit) <= SMALL_PAGE:
        return True
    return "metadata.name=" in info.param("fieldSelector")
