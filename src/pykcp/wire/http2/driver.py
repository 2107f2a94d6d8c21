"""HTTP/2 on a connection: runs the state machine and makes exchanges of its events."""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING

from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import (
    BodyReceived,
    ConnectionFailed,
    Event,
    Relieved,
    RequestReceived,
    StreamEnded,
    StreamLost,
    StreamState,
)
from pykcp.wire.http2.exchange import Http2Channel, Http2Exchange
from pykcp.wire.http2.machine import Http2
from pykcp.wire.rate import Progress
from pykcp.wire.request import Request
from pykcp.wire.serving import PLAIN_TEXT, ConnectionHub, is_body_late

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection

_log = logging.getLogger(__name__)

_DRAIN_GRACE = 1.0
"""Seconds that a client has to hear of a drain before new streams are refused, as in Go."""
_TURN_SECONDS = 0.001
"""Seconds of events per turn; other connections wait in the meantime."""
_STREAMS_PER_TURN = 32
"""How many streams of a lost connection are let go of at a go."""


class Http2Driver:
    """Runs the state machine on a connection."""

    protocol = "HTTP/2.0"

    def __init__(self, connection: Connection, hub: ConnectionHub) -> None:
        self.connection = connection
        self.hub = hub
        now = hub.loop.time()
        self.machine = Http2(hub.settings, hub.huffman, now, hub.unsent)
        self.channel = Http2Channel(connection, self.machine)
        self.buffered = 0
        self._receiving: dict[Http2Exchange, float] = {}
        """Exchanges whose body is being collected, and since when."""
        self._idle_since: float | None = now
        self._last_id = 0
        self._is_draining = False
        self._behind: deque[Event] = deque()
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
        room = self.hub.settings.turn_size if may_send_bodies else 0
        return self.machine.take_output(room, self._handle)

    @property
    def has_more(self) -> bool:
        return self.machine.has_more

    @property
    def is_finished(self) -> bool:
        return self.machine.is_finished

    @property
    def is_quiet(self) -> bool:
        machine = self.machine
        return not (machine.out or machine.ready or machine.is_going_away or machine.is_failed)

    @property
    def has_news(self) -> bool:
        return self.machine.has_news

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

    def connection_lost(self) -> bool:
        while self._behind:
            event = self._behind.popleft()
            if isinstance(event, StreamLost):
                self._lose(event.stream)
        streams = self.machine.streams
        for state in [*islice(streams.values(), _STREAMS_PER_TURN)]:
            self.machine.forget(state)
            self._lose(state)
        return bool(streams)

    @property
    def unsent(self) -> int:
        return self.machine.pending_total

    def shed(self, size: int) -> None:
        """The streams for which most waits are broken off."""
        loaded = [state for state in self.machine.streams.values() if state.pending_size]
        loaded.sort(key=lambda state: state.pending_size, reverse=True)
        for state in loaded:
            if size <= 0:
                break
            size -= state.pending_size
            self._break_off(state)

    def drop_stalled(self) -> bool:
        stalled = []
        for state in self.machine.streams.values():
            if state.pending_size:
                if state.moved == state.moved_before:
                    stalled.append(state)
                state.moved_before = state.moved
        for state in stalled:
            self._break_off(state)
        return bool(stalled)

    def _break_off(self, state: StreamState) -> None:
        self.machine.reset(state, frames.CANCEL)
        self._lose(state)
        self.connection.flush_soon()

    def check(self, now: float) -> None:
        """Time limits; called now and then."""
        settings = self.hub.settings
        for exchange, since in [*self._receiving.items()]:
            if is_body_late(now - since, exchange.received, settings):
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
        settings = self.hub.settings
        for state in [*self.machine.streams.values()]:
            progress = state.progress
            if progress is None:
                if not state.pending_size:
                    continue
                progress = state.progress = Progress()
            if progress.is_too_slow(
                now,
                state.moved,
                state.pending_size,
                settings.write_stall_timeout,
                settings.min_read_rate,
            ):
                self._break_off(state)

    # -- events --------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        return bool(self._behind) or self.machine.is_behind

    def catch_up(self) -> None:
        if self._behind:
            self._handle([])
        else:
            self.receive(b"")

    def _handle(self, events: list[Event]) -> None:
        """Work on events in order, but only for so long in one turn."""
        if len(events) == 1 and not self._behind:
            self._on_event(events[0])
            return
        behind = self._behind
        if not events and not behind:
            return
        behind.extend(events)
        end = perf_counter() + _TURN_SECONDS
        while behind:
            self._on_event(behind.popleft())
            if perf_counter() > end:
                break

    def _on_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._on_request(event)
        elif isinstance(event, BodyReceived):
            self._on_body(event)
        elif isinstance(event, StreamLost):
            self._lose(event.stream)
        elif isinstance(event, ConnectionFailed):
            address = self.connection.peer.address
            _log.info("HTTP/2 connection of %s ended: %s", address, event.reason)
        elif isinstance(event, StreamEnded | Relieved):
            self._on_sent(event)

    @staticmethod
    def _on_sent(event: StreamEnded | Relieved) -> None:
        exchange: Http2Exchange | None = event.stream.owner
        if exchange is None:
            return
        exchange.relieve()
        if isinstance(event, StreamEnded):
            if exchange.stream is not None:
                exchange.stream.finish()
            exchange.let_go()

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
        # The state machine counts orphans too, but not those of the same input.
        load = len(machine.streams) + machine.orphans
        return machine.orphans > 0 and load > settings.max_concurrent_streams

    def _await_body(self, exchange: Http2Exchange) -> None:
        request = exchange.request
        if self.hub.wants_streaming(request):
            self.machine.widen_receiving(exchange.state)
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
            state.owner = None

    # -- unfinished bodies ---------------------------------------------------------------------

    def buffer(self, exchange: Http2Exchange, size: int) -> bool:
        """Account for a piece of an unfinished body; False if it was refused for want of room."""
        exchange.buffered += size
        self.buffered += size
        address, is_known = self.connection.peer.address, exchange.is_known
        has_room = self.hub.account_body(address, size, is_known)
        if has_room and self.buffered <= self.hub.settings.max_buffered_per_connection:
            return True
        self.machine.reset(exchange.state, frames.REFUSED_STREAM)
        exchange.lost()
        return False

    def unbuffer(self, exchange: Http2Exchange, size: int) -> None:
        if size:
            exchange.buffered -= size
            self.buffered -= size
            self.hub.account_body(self.connection.peer.address, -size, exchange.is_known)

    def become_known(self, exchange: Http2Exchange) -> None:
        """The client is authenticated now: account its buffered body accordingly."""
        size, address = exchange.buffered, self.connection.peer.address
        self.hub.account_body(address, -size, is_known=False)
        exchange.is_known = True
        self.hub.account_body(address, size, is_known=True)

    def stop_receiving(self, exchange: Http2Exchange) -> None:
        """The body is complete or given up."""
        self._receiving.pop(exchange, None)
        self.unbuffer(exchange, exchange.buffered)
