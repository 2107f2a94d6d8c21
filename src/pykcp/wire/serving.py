"""What all connections of a listener share, and how an exchange reaches the application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from pykcp.wire.exchange import Application, Exchange, Header, Request
from pykcp.wire.hpack import Encoder
from pykcp.wire.http1_head import HeadWriter
from pykcp.wire.huffman import Huffman
from pykcp.wire.settings import WireSettings

_log = logging.getLogger(__name__)

_CHECKS_PER_TURN = 200
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

    def __init__(self, encoder: Encoder, clock: Callable[[], float] = time.time) -> None:
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


class ServedExchange(Exchange, Protocol):
    """What `Hub.serve` needs of either protocol's exchange."""

    task: asyncio.Task[None] | None

    def fail(self) -> None:
        """Answer 500, or break the answer off if it has begun."""

    def task_ended(self) -> None:
        """The handler's task is over."""


class HubConnection(Protocol):
    """What the hub needs of a connection."""

    @property
    def idle_since(self) -> float | None: ...
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


class Hub:
    """One listener's application, settings, memories, connections and tasks."""

    def __init__(
        self,
        application: Application,
        settings: WireSettings,
        loop: asyncio.AbstractEventLoop,
        meter: Meter | None = None,
    ) -> None:
        self.application = application
        self.settings = settings
        self.loop = loop
        self.meter = meter or NoMeter()
        self.encoder = Encoder()
        self.huffman = Huffman()
        self.head_writer = HeadWriter()
        self.date = DateStamp(self.encoder)
        self.buffered = 0
        """Octets of unfinished request bodies."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.connections: dict[HubConnection, None] = {}
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
            self._start(exchange, coroutine)
        elif not exchange.responded:
            _log.error("no answer to %s %s", exchange.request.method, exchange.request.path)
            exchange.fail()

    def wants_streaming(self, request: Request) -> bool:
        """The application's choice; its failure is not the connection's."""
        try:
            return self.application.wants_streaming(request)
        except Exception:
            _log.exception("choice of streaming failed: %s %s", request.method, request.path)
            return False

    def _start(self, exchange: ServedExchange, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine, name=exchange.request.path)
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
            _log.error("no answer to %s %s", exchange.request.method, exchange.request.path)
            exchange.fail()

    @staticmethod
    def _report(exchange: ServedExchange, what: str, error: BaseException | bool = True) -> None:
        request = exchange.request
        _log.error("%s: %s %s", what, request.method, request.path, exc_info=error)

    # -- connections ---------------------------------------------------------------------------

    def admit(self, connection: HubConnection) -> None:
        if len(self.connections) >= self.settings.max_connections:
            self._close_longest_idle()
        self.connections[connection] = None
        if self._sweep_timer is None:
            self._sweep_timer = self.loop.call_later(self._sweep_interval, self._sweep)

    def discard(self, connection: HubConnection) -> None:
        self.connections.pop(connection, None)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def _close_longest_idle(self) -> None:
        """Make room.  Rare, so a walk over all connections will do."""
        idle = [
            (since, connection)
            for connection in self.connections
            if (since := connection.idle_since) is not None
        ]
        victim = min(idle, key=lambda item: item[0])[1] if idle else next(iter(self.connections))
        _log.warning("too many connections: closing one")
        self.connections.pop(victim)
        victim.abort()

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
        self._sweep_some([*self.connections])

    def _sweep_some(self, connections: list[HubConnection]) -> None:
        now = self.loop.time()
        for connection in connections[:_CHECKS_PER_TURN]:
            try:
                connection.check(now)
            except Exception:  # one connection's trouble must not stop the timer of all
                _log.exception("check of a connection failed")
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
