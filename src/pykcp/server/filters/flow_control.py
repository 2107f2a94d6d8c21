"""API fairness: one tenant's flood does not starve the others.

Requests that are answered at once (every GET of an object) pass by: they cost less than
queueing them. The rest are coroutines, of two sorts with seats of their own (`flow_queue`):

* long ones: lists without a small page size, deletions of collections, the beginnings of
  watches, OpenAPI documents;
* ordinary ones: everything else, mostly writes.

Who finds no seat waits in a queue of their own; who finds it full, or waits too long, gets a
429 in upstream's words. Members of system:masters are exempt, as upstream. Open watches cost
no seat; they are counted per user and cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from pykcp.auth.user import MASTERS
from pykcp.observe.metrics import Counter, Histogram, LabelledGauge, LabelValues, Registry
from pykcp.server.answers import PlainError
from pykcp.server.call import Call
from pykcp.server.filters.flow_queue import FairQueue, Limits

SMALL_PAGE = 500
_HOLD = 10.0
"""Seconds after which a long request's seat is free again: whoever reads slowly keeps nobody out."""
_BOUNDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LONG, _ORDINARY, _EXEMPT = "long", "ordinary", "exempt"


@dataclass(frozen=True, slots=True)
class FlowSettings:
    ordinary: Limits = field(default_factory=Limits)
    long: Limits = field(default_factory=lambda: Limits(seats=8))
    wait: float = 15.0
    """Seconds that a request may wait for a seat."""
    watches_per_user: int = 4000
    """Open watches of one user in one cluster."""


class TooBusy(PlainError):
    """429, as upstream words it and in plain text."""

    code, reason = 429, "TooManyRequests"

    def __init__(self) -> None:
        super().__init__("Too many requests, please try again later.", retry_after=1)


class _Level:
    __slots__ = ("label", "queue", "timed")

    def __init__(self, name: str, limits: Limits, *, timed: bool) -> None:
        self.label = (name, name)
        self.queue = FairQueue(limits)
        self.timed = timed
        """Seats are taken back after a while."""


class _Seat:
    """A seat that is given back once, by whoever comes first."""

    __slots__ = ("_is_left", "_queue", "_tenant", "_user", "since")

    def __init__(self, queue: FairQueue, tenant: str, user: str) -> None:
        self._queue, self._tenant, self._user = queue, tenant, user
        self._is_left = False
        self.since = time.monotonic()

    def leave(self) -> None:
        if not self._is_left:
            self._is_left = True
            self._queue.finish(self._tenant, self._user)


class FlowControl:
    def __init__(self, settings: FlowSettings, metrics: Registry) -> None:
        self._settings = settings
        self._ordinary = _Level(_ORDINARY, settings.ordinary, timed=False)
        self._long = _Level(_LONG, settings.long, timed=True)
        self._held: dict[_Seat, None] = {}
        self._is_sweeping = False
        self._watches: dict[tuple[str, str], int] = {}
        self._metrics = _FlowMetrics(metrics, (self._ordinary, self._long))

    def govern(self, call: Call, pending: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """The same work, done when it has a seat."""
        if MASTERS in call.user.groups:
            self._metrics.dispatched.add((_EXEMPT, _EXEMPT))
            return pending
        if call.info.verb == "watch":
            return self._watch(call, pending)
        return self._run(self._long if _is_long(call) else self._ordinary, call, pending)

    async def _run(self, level: _Level, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        tenant, user = call.cluster, call.user.name
        queue = level.queue
        if not queue.start(tenant, user):
            try:
                await self._wait(level, call)
            except BaseException:
                pending.close()
                raise
        self._metrics.dispatched.add(level.label)
        if level.timed:
            await self._hold(_Seat(queue, tenant, user), pending)
            return
        try:
            await pending
        finally:
            queue.finish(tenant, user)

    async def _hold(self, seat: _Seat, pending: Coroutine[Any, Any, None]) -> None:
        """A seat until the work is done, but not for ever."""
        self._held[seat] = None
        if not self._is_sweeping:
            self._is_sweeping = True
            asyncio.get_running_loop().call_later(_HOLD, self._sweep)
        try:
            await pending
        finally:
            del self._held[seat]
            seat.leave()

    def _sweep(self) -> None:
        """One timer for all, and none while nobody has a seat."""
        oldest = time.monotonic() - _HOLD
        for seat in [seat for seat in self._held if seat.since <= oldest]:
            seat.leave()
        self._is_sweeping = bool(self._held)
        if self._is_sweeping:
            asyncio.get_running_loop().call_later(_HOLD / 4, self._sweep)

    async def _wait(self, level: _Level, call: Call) -> None:
        loop = asyncio.get_running_loop()
        seated: asyncio.Future[bool] = loop.create_future()
        tenant, user, queue = call.cluster, call.user.name, level.queue
        began = time.perf_counter()
        size = len(call.exchange.request.body)
        waiting = queue.wait(tenant, user, size, lambda: _answer(seated, True))
        if waiting is None:
            self._metrics.reject(level.label, "queue-full")
            raise TooBusy

        def give_up() -> None:
            if queue.abandon(waiting):
                _answer(seated, False)

        timer = loop.call_later(self._settings.wait, give_up)
        try:
            has_seat = await seated
        except asyncio.CancelledError:
            if not queue.abandon(waiting):
                queue.finish(tenant, user)  # it got its seat too late
            raise
        finally:
            timer.cancel()
        self._metrics.waited(level.label, has_seat, time.perf_counter() - began)
        if not has_seat:
            self._metrics.reject(level.label, "time-out")
            raise TooBusy

    async def _watch(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        """A seat for the beginning, and one of the user's watches until its stream is over."""
        flow = (call.cluster, call.user.name)
        count = self._watches.get(flow, 0)
        if count >= self._settings.watches_per_user:
            pending.close()
            self._metrics.reject(self._long.label, "concurrency-limit")
            raise TooBusy
        self._watches[flow] = count + 1
        try:
            await self._run(self._long, call, pending)
        except BaseException:
            self._watch_over(flow)
            raise
        if call.stream is None:
            self._watch_over(flow)
        else:
            call.stream.on_close(lambda: self._watch_over(flow))

    def _watch_over(self, flow: tuple[str, str]) -> None:
        left = self._watches[flow] - 1
        if left:
            self._watches[flow] = left
        else:
            del self._watches[flow]


def _answer(seated: asyncio.Future[bool], has_seat: bool) -> None:
    if not seated.done():
        seated.set_result(has_seat)


def _is_long(call: Call) -> bool:
    verb = call.info.verb
    if verb == "list":
        return not _is_small_page(call)
    return verb == "deletecollection" or not call.info.is_resource


def _is_small_page(call: Call) -> bool:
    """A page of a few objects, or one object by its name."""
    info = call.info
    if not info.query:
        return False
    limit = info.param("limit")
    if limit.isdigit() and len(limit) < 6 and 0 < int(limit) <= SMALL_PAGE:
        return True
    return "metadata.name=" in info.param("fieldSelector")


class _FlowMetrics:
    """Upstream's names; labels say the level and never who asked."""

    def __init__(self, registry: Registry, levels: tuple[_Level, ...]) -> None:
        labels = ("priority_level", "flow_schema")
        name = "apiserver_flowcontrol_"
        self.dispatched = Counter(
            name + "dispatched_requests_total", "Requests that got a seat.", labels
        )
        self.rejected = Counter(
            name + "rejected_requests_total",
            "Requests refused with 429, and why.",
            (*labels, "reason"),
        )
        self.waits = Histogram(
            name + "request_wait_duration_seconds",
            "Time that requests waited for a seat, if they had to.",
            (*labels, "execute"),
            _BOUNDS,
        )

        def executing() -> Iterator[tuple[LabelValues, float]]:
            return ((level.label, float(level.queue.running)) for level in levels)

        def queued() -> Iterator[tuple[LabelValues, float]]:
            return ((level.label, float(level.queue.queued)) for level in levels)

        def seats() -> Iterator[tuple[LabelValues, float]]:
            return ((level.label[:1], float(level.queue.limits.seats)) for level in levels)

        registry.add(
            self.dispatched,
            self.rejected,
            self.waits,
            LabelledGauge(
                name + "current_executing_requests", "Requests in a seat.", labels, executing
            ),
            LabelledGauge(
                name + "current_inqueue_requests", "Requests that wait for one.", labels, queued
            ),
            LabelledGauge(name + "nominal_limit_seats", "Seats in all.", labels[:1], seats),
        )

    def reject(self, label: LabelValues, reason: str) -> None:
        self.rejected.add((*label, reason))

    def waited(self, label: LabelValues, has_seat: bool, seconds: float) -> None:
        self.waits.observe((*label, "true" if has_seat else "false"), seconds)
