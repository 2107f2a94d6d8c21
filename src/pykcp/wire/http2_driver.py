"""HTTP/2 on a connection: runs the state machine and makes exchanges of its events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykcp.wire import frames
from pykcp.wire.http2 import Http2
from pykcp.wire.http2_events import (
    BodyReceived,
    ConnectionFailed,
    Event,
    Relieved,
    RequestReceived,
    StreamEnded,
    StreamLost,
    StreamState,
)
from pykcp.wire.http2_exchange import Http2Exchange
from pykcp.wire.request import Request
from pykcp.wire.serving import PLAIN_TEXT, Hub

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection

_log = logging.getLogger(__name__)

_DRAIN_GRACE = 1.0
"""Seconds that a client has to hear of a drain before new streams are refused, as in Go."""
_EVENTS_PER_TURN = 64
"""At 30 µs a request that is 2 ms in which nobody else is heard."""


class Http2Driver:
    """Runs the state machine on a connection."""

    protocol = "HTTP/2.0"

    def __init__(self, connection: Connection, hub: Hub) -> None:
        self.connection = connection
        self.hub = hub
        now = hub.loop.time()
        self.machine = Http2(hub.settings, hub.huffman, now)
        self.buffered = 0
        self._receiving: dict[Http2Exchange, float] = {}
        """Exchanges whose body is being collected, and since when."""
        self._idle_since: float | None = now
        self._last_id = 0
        self._is_draining = False
        self._behind: list[Event] = []
        """Events for which the last turn had no time."""

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        now = self.hub.loop.time()
        machine = self.machine
        self._handle(machine.receive(data, now))
        if machine.streams:
            self._idle_since = None
        elif machine.last_id != self._last_id or self._idle_since is None:
            self._idle_since = now
        self._last_id = machine.last_id

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        """What is to be written in this turn."""
        machine = self.machine
        machine.room = self.hub.settings.turn_size if may_send_bodies else 0
        if machine.ready:
            machine.pump()
            if machine.events:
                self._handle(machine.take_events())
        out, machine.out = machine.out, []
        return out

    @property
    def has_more(self) -> bool:
        """Something waits that neither the windows nor the room hold back."""
        return bool(self.machine.ready) and self.machine.window > 0

    @property
    def is_finished(self) -> bool:
        return self.machine.is_finished

    @property
    def has_unread_input(self) -> bool:
        return self.machine.is_failed

    @property
    def idle_since(self) -> float | None:
        return self._idle_since

    def wind_down(self) -> None:
        """Two GOAWAYs: one that only announces, one that names the last stream."""
        if not self._is_draining:
            self._is_draining = True
            self.machine.announce_drain()
            self.hub.loop.call_later(_DRAIN_GRACE, self._refuse_new_streams)
            self.connection.flush_soon()

    def _refuse_new_streams(self) -> None:
        self.machine.refuse_new_streams()
        self.connection.flush_soon()

    def connection_lost(self) -> None:
        for event in self._behind:
            if isinstance(event, StreamLost):
                self._lose(event.stream)
        self._behind = []
        for state in [*self.machine.streams.values()]:
            self.machine.forget(state)
            self._lose(state)

    def check(self, now: float) -> None:
        """Time limits; called now and then."""
        settings = self.hub.settings
        for exchange, since in [*self._receiving.items()]:
            if now - since > settings.body_timeout:
                exchange.release_body()
                exchange.respond(408, PLAIN_TEXT, b"Request Timeout\n")
        waiting_since = self.machine.waiting_since
        if waiting_since is not None and now - waiting_since > settings.header_timeout:
            self.machine.fail(frames.ENHANCE_YOUR_CALM, "frame not completed in time")
        if self.machine.pending_total:
            self._check_stalls(now)
        if self._idle_since is None and not self.machine.streams:
            self._idle_since = now
        if self._idle_since is not None and now - self._idle_since > settings.idle_timeout:
            self.wind_down()
            self._refuse_new_streams()
        if self.machine.events:
            self._handle(self.machine.take_events())
        if self.machine.out:
            self.connection.flush_soon()

    def _check_stalls(self, now: float) -> None:
        for state in [*self.machine.streams.values()]:
            if not state.pending_size:
                continue
            if state.has_moved or not state.stalled_since:
                state.has_moved = False
                state.stalled_since = now
            elif now - state.stalled_since > self.hub.settings.write_stall_timeout:
                self.machine.reset(state, frames.CANCEL)
                self._lose(state)

    # -- events --------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)

    def catch_up(self) -> None:
        behind, self._behind = self._behind, []
        self._handle(behind)

    def _handle(self, events: list[Event]) -> None:
        """Work on events in order, but only so many in one turn."""
        if self._behind or len(events) > _EVENTS_PER_TURN:
            events = self._behind + events
            self._behind = events[_EVENTS_PER_TURN:]
            events = events[:_EVENTS_PER_TURN]
        for event in events:
            if isinstance(event, RequestReceived):
                self._on_request(event)
            elif isinstance(event, BodyReceived):
                self._on_body(event)
            elif isinstance(event, StreamLost):
                self._lose(event.stream)
            elif isinstance(event, ConnectionFailed):
                address = self.connection.peer.address
                _log.info("HTTP/2 connection of %s ended: %s", address, event.reason)
            else:
                self._on_sent(event)

    @staticmethod
    def _on_sent(event: StreamEnded | Relieved) -> None:
        exchange: Http2Exchange | None = event.stream.owner
        if exchange is None or exchange.stream is None:
            return
        if isinstance(event, StreamEnded):
            exchange.stream.finish()
        else:
            exchange.stream.relieve()

    def _on_request(self, event: RequestReceived) -> None:
        state, head = event.stream, event.head
        if not state.is_local_open:
            return  # broken off before we came to it
        if head is None:
            block = self.hub.encoder.status(431) + self.hub.encoder.content_length(0)
            self.machine.send_headers(state, block, ends=True)
            return
        if self._is_overloaded():
            self.machine.reset(state, frames.REFUSED_STREAM)
            return
        exchange = Http2Exchange(self, state, Request(head, self.connection.peer))
        state.owner = exchange
        if event.is_complete:
            self.hub.serve(exchange)
        else:
            self._await_body(exchange)

    def _is_overloaded(self) -> bool:
        """Too much waits for this client, or too much is still being done for it in vain."""
        machine, settings = self.machine, self.hub.settings
        if machine.pending_total > settings.max_buffered_per_connection:
            return True
        # The machine counts orphans too, but not those that the same octets have made.
        load = len(machine.streams) + machine.orphans
        return machine.orphans > 0 and load > settings.max_concurrent_streams

    def _await_body(self, exchange: Http2Exchange) -> None:
        request = exchange.request
        if self.hub.wants_streaming(request):
            exchange.start_streaming()
            self.hub.serve(exchange)
        elif (request._head.content_length or 0) > self.hub.settings.max_body:
            request.truncated = True
            self.hub.serve(exchange)
        else:
            self._receiving[exchange] = self.hub.loop.time()
            exchange.continue_body()

    def _on_body(self, event: BodyReceived) -> None:
        exchange = event.stream.owner
        if exchange is not None and event.stream.is_local_open:
            exchange.receive(event.data, event.is_last)

    def _lose(self, state: StreamState) -> None:
        exchange: Http2Exchange | None = state.owner
        if exchange is not None:
            exchange.lost()

    # -- unfinished bodies ---------------------------------------------------------------------

    def buffer(self, exchange: Http2Exchange, size: int) -> bool:
        """Account for a piece of an unfinished body; False if it was refused for want of room."""
        exchange.buffered += size
        self.buffered += size
        self.hub.buffered += size
        settings = self.hub.settings
        if (
            self.buffered <= settings.max_buffered_per_connection
            and self.hub.buffered <= settings.max_buffered_bodies
        ):
            return True
        self.machine.reset(exchange.state, frames.REFUSED_STREAM)
        exchange.lost()
        return False

    def unbuffer(self, exchange: Http2Exchange, size: int) -> None:
        exchange.buffered -= size
        self.buffered -= size
        self.hub.buffered -= size

    def stop_receiving(self, exchange: Http2Exchange) -> None:
        """The body is complete or given up."""
        self._receiving.pop(exchange, None)
        self.unbuffer(exchange, exchange.buffered)
