"""What all connections of a listener share, and how an exchange reaches the application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Protocol

from pykcp.aio.memory import Trimmer
from pykcp.aio.owner import spawn
from pykcp.wire.answer_ids import AnswerIds
from pykcp.wire.exchange import Application, Exchange, Header, IncomingRequest, PeerInfo
from pykcp.wire.gathering import Gathering
from pykcp.wire.handshake_seats import HandshakeSeats, Seat
from pykcp.wire.http1.head import HeadWriter
from pykcp.wire.http2.hpack import HeaderEncoder
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.lane import Handshakes, Lane
from pykcp.wire.settings import WireSettings
from pykcp.wire.unsent import Unsent

_log = logging.getLogger(__name__)

_CHECKS_PER_TURN = 200
_PRESS_SECONDS = 1.0
"""Interval of the search for stalled readers while others wait for buffer space."""
FAILURE_TEXT = b"Internal Server Error\n"
PLAIN_TEXT: Sequence[Header] = (("content-type", "text/plain; charset=utf-8"),)


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(seconds: float) -> str:
    """A time as HTTP writes it, whatever the locale."""
    t = time.gmtime(seconds)
    return (
        f"{_DAYS[t.tm_wday]}, {t.tm_mday:02} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04} "
        f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02} GMT"
    )


class DateStamp:
    """The `date` header in both protocols' octets, made once a second."""

    __slots__ = ("_clock", "_encoder", "_http1", "_http2", "_second")

    def __init__(self, encoder: HeaderEncoder, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._encoder = encoder
        self._second = -1
        self._http1 = self._http2 = b""

    def http1(self) -> bytes:
        self._refresh()
        return self._http1

    def http2(self) -> bytes:
        self._refresh()
        return self._http2

    def _refresh(self) -> None:
        second = int(self._clock())
        if second != self._second:
            self._second = second
            text = http_date(second)
            self._http1 = f"date: {text}\r\n".encode()
            self._http2 = self._encoder.field(("date", text))


def is_body_late(seconds: float, received: int, settings: WireSettings) -> bool:
    """Whether a body takes too long, in all or for what has come of it."""
    if seconds > settings.body_timeout:
        return True
    return seconds > settings.body_grace and received < seconds * settings.min_body_rate


def _count_down(counts: dict[str, int], key: str) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


class ServedExchange(Exchange, Protocol):
    """What `Hub.serve` needs of either protocol's exchange."""

    task: asyncio.Task[None] | None
    is_deferred: bool
    """The answer comes later, and no task stands for it."""

    def fail(self) -> None:
        """Answer 500, or break the answer off if it has begun."""

    def task_ended(self) -> None:
        """The handler's task is over."""


class HubConnection(Hashable, Protocol):
    """What the hub needs of a connection."""

    @property
    def peer(self) -> PeerInfo: ...
    @property
    def idle_since(self) -> float | None: ...
    @property
    def unsent(self) -> int: ...
    def begin(self) -> None: ...
    def shed(self, size: int) -> None: ...
    def drop_stalled(self) -> bool: ...
    def wind_down(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def check(self, now: float) -> None: ...


class Meter(Protocol):
    """Measures the event loop while there is work; it sleeps until it is woken."""

    is_awake: bool

    def wake(self) -> None: ...


class NoMeter:
    """Nothing is measured."""

    is_awake = True

    def wake(self) -> None: ...


class ConnectionHub:
    """One listener's application, settings, memories, connections and tasks."""

    def __init__(
        self,
        application: Application,
        settings: WireSettings,
        loop: asyncio.AbstractEventLoop,
        meter: Meter | None = None,
        counted: Callable[[int], None] | None = None,
    ) -> None:
        """`counted`: called with the number of connections whenever it changes."""
        self.application = application
        self._counted = counted
        self.settings = settings
        self.loop = loop
        self.meter = meter or NoMeter()
        self.encoder = HeaderEncoder()
        self.huffman = Huffman()
        self.head_writer = HeadWriter()
        self.date = DateStamp(self.encoder)
        self.ids = AnswerIds(settings.id_header, self.encoder)
        self.buffered = 0
        """Octets of unfinished request bodies."""
        self.buffered_unknown = 0
        """Those of callers who have not signed in."""
        self._bodies: dict[str, int] = {}
        """The same of each address."""
        self.unsent = Unsent(settings.max_unsent, loop, self._shed, self._press)
        self._is_pressed = False
        self._trimmer = Trimmer()
        self._trimming: asyncio.Future[None] | None = None
        self.lane = Lane(loop)
        self.handshakes = Handshakes(self.lane)
        self.gathering = Gathering(loop)
        self.busy_since = self.busy_until = 0.0
        """Since when input has been worked on without a pause, and until when."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.connections: dict[HubConnection, None] = {}
        self.refused = 0
        """Connections that were closed at once, because there were too many."""
        self._addresses: dict[str, int] = {}
        """Connections of each address."""
        self._seats: HandshakeSeats[HubConnection] = HandshakeSeats(
            settings.max_handshakes, settings.max_handshakes_per_address
        )
        self.is_draining = False
        self._empty: asyncio.Future[None] | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_interval = min(5.0, self._shortest_timeout() / 4)

    # -- requests ------------------------------------------------------------------------------

    def serve(self, exchange: ServedExchange) -> None:
        """Hand a request to the application; a task is made only if it wants to wait."""
        if len(exchange.request.path) > self.settings.max_path:
            exchange.respond(414, PLAIN_TEXT, b"414 URI Too Long")
            return
        try:
            coroutine = self.application.handle(exchange)
        except Exception:  # whatever it is, one request's trouble is not the connection's
            self._report(exchange, "handler failed")
            exchange.fail()
            return
        if coroutine is not None:
            self.start(exchange, coroutine)
        elif not exchange.responded and not exchange.is_deferred:
            _log.error(
                "handler did not respond to %s %s", exchange.request.method, exchange.request.path
            )
            exchange.fail()

    def account_body(self, address: str, size: int, is_known: bool) -> bool:
        """So many octets of an unfinished body more (or fewer); whether there is room for them."""
        self.buffered += size
        of_address = self._bodies.get(address, 0) + size
        if of_address:
            self._bodies[address] = of_address
        else:
            self._bodies.pop(address, None)
        if not is_known:
            self.buffered_unknown += size
        settings = self.settings
        return (
            self.buffered <= settings.max_buffered_bodies
            and of_address <= settings.max_buffered_per_address
            and (is_known or self.buffered_unknown <= settings.max_buffered_unknown)
        )

    def identify(self, exchange: Exchange, answer: Callable[[bool], None]) -> None:
        """Ask the application whether it knows the caller; a failure is a no."""
        try:
            found = self.application.identify(exchange)
        except Exception:
            _log.exception("authentication of a request failed: %s", exchange.request.path)
            found = False
        if isinstance(found, bool):
            answer(found)
            return
        task = spawn(self._identify(exchange, found, answer), "identify")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @staticmethod
    async def _identify(
        exchange: Exchange, found: Coroutine[Any, Any, bool], answer: Callable[[bool], None]
    ) -> None:
        try:
            is_known = await found
        except Exception:
            _log.exception("authentication of a request failed: %s", exchange.request.path)
            is_known = False
        answer(is_known)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        """The application's choice; its failure is not the connection's."""
        try:
            return self.application.wants_streaming(request)
        except Exception:
            _log.exception("wants_streaming failed: %s %s", request.method, request.path)
            return False

    def start(self, exchange: ServedExchange, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run what answers a request; it is cancelled if the client goes."""
        task = spawn(coroutine, exchange.request.path)
        self.tasks.add(task)
        exchange.task = task
        task.add_done_callback(lambda task: self._on_task_done(exchange, task))

    def _on_task_done(self, exchange: ServedExchange, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        exchange.task = None
        exchange.task_ended()
        if task.cancelled():
            exchange.fail()
        elif (error := task.exception()) is not None:
            self._report(exchange, "handler failed", error)
            exchange.fail()
        elif not exchange.responded:
            _log.error(
                "handler did not respond to %s %s", exchange.request.method, exchange.request.path
            )
            exchange.fail()
        exchange.request.body = b""  # whatever still knows the request, its body is not needed

    @staticmethod
    def _report(exchange: ServedExchange, what: str, error: BaseException | bool = True) -> None:
        request = exchange.request
        _log.error("%s: %s %s", what, request.method, request.path, exc_info=error)

    # -- connections ---------------------------------------------------------------------------

    def admit(self, connection: HubConnection) -> Seat:
        """Whether a new connection may begin its handshake: it has to be closed if it never may."""
        settings, address = self.settings, connection.peer.address
        count = self._addresses.get(address, 0)
        self._addresses[address] = count + 1
        if len(self.connections) >= settings.max_connections:
            self._close_longest_idle()
        self.connections[connection] = None
        if self._counted is not None:
            self._counted(len(self.connections))
        if self._sweep_timer is None:
            self._sweep_timer = self.loop.call_later(self._sweep_interval, self._sweep)
        is_one_too_many = count >= settings.max_connections_per_address
        seat = Seat.NONE if is_one_too_many else self._seats.take(connection, address)
        self.refused += seat is Seat.NONE
        return seat

    def greeted(self, connection: HubConnection) -> None:
        """The handshake is over; another connection of the address may begin its own."""
        following = self._seats.leave(connection)
        if following is not None:
            following.begin()

    def discard(self, connection: HubConnection) -> None:
        self.connections.pop(connection, None)
        if self._counted is not None:
            self._counted(len(self.connections))
        self.greeted(connection)
        _count_down(self._addresses, connection.peer.address)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def _close_longest_idle(self) -> None:
        """Make room, and some more: this is a walk over all connections."""
        idle = [
            (since, connection)
            for connection in self.connections
            if (since := connection.idle_since) is not None
        ]
        idle.sort(key=lambda item: item[0])
        victims = [connection for _, connection in idle[: max(1, len(self.connections) // 100)]]
        _log.warning("too many connections: closing some")
        for victim in victims or [next(iter(self.connections))]:
            self.connections.pop(victim)
            victim.abort()

    def _shed(self, size: int) -> None:
        """Free so many octets of what waits to be sent, where most of it waits first."""
        goal = self.unsent.total - size
        loaded = [c for c in self.connections if c.unsent > self.settings.low_water]
        loaded.sort(key=lambda connection: connection.unsent, reverse=True)
        for connection in loaded:
            excess = self.unsent.total - goal
            if excess <= 0:
                break
            self.unsent.shed_count += 1
            connection.shed(min(excess, connection.unsent))
        _log.warning("too many unsent bytes: aborted the responses of the slowest readers")

    def _press(self) -> None:
        """A response waits for buffer space: abort responses whose clients do not read at all."""
        if not self._is_pressed:
            self._is_pressed = True
            self._drop_stalled()

    def _drop_stalled(self) -> None:
        self._is_pressed = self.unsent.is_waited_for
        for connection in [*self.connections] if self._is_pressed else ():
            if connection.unsent > self.settings.low_water and connection.drop_stalled():
                self.unsent.shed_count += 1
        if self._is_pressed:
            self.loop.call_later(_PRESS_SECONDS, self._drop_stalled)

    def _shortest_timeout(self) -> float:
        settings = self.settings
        return min(
            settings.handshake_timeout,
            settings.header_timeout,
            settings.body_timeout,
            settings.idle_timeout,
            settings.write_stall_timeout,
        )

    def _sweep(self) -> None:
        """One timer looks after the time limits of all connections; none runs without them."""
        self._sweep_timer = None
        now = self.loop.time()
        if self._trimming is None and self._trimmer.is_due(now, is_idle=not self.connections):
            self._trimming = self.loop.run_in_executor(None, self._trimmer.trim, now)
            self._trimming.add_done_callback(self._trimmed)
        self._sweep_some([*self.connections])

    def _trimmed(self, _trimming: asyncio.Future[None]) -> None:
        self._trimming = None

    def _sweep_some(self, connections: list[HubConnection]) -> None:
        now = self.loop.time()
        for connection in connections[:_CHECKS_PER_TURN]:
            try:
                connection.check(now)
            except Exception:  # one connection's trouble must not stop the timer of all
                _log.exception("periodic check of a connection failed")
                connection.abort()
        if len(connections) > _CHECKS_PER_TURN:
            self.loop.call_soon(self._sweep_some, connections[_CHECKS_PER_TURN:])
        elif self.connections and self._sweep_timer is None:
            self._sweep_timer = self.loop.call_later(self._sweep_interval, self._sweep)

    def drain(self) -> None:
        self.is_draining = True
        for connection in [*self.connections]:
            connection.wind_down()

    async def wait_until_empty(self) -> None:
        if self.connections:
            self._empty = self.loop.create_future()
            await self._empty

    async def close(self) -> None:
        """Break everything off and wait for the handlers' tasks."""
        self.is_draining = True
        for connection in [*self.connections]:
            connection.abort()
        await self.wait_until_empty()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
