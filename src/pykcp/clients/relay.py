"""One forwarded request: what the server sends goes to the client, and the other way round.

Only callbacks: nothing here waits, and no task is needed while an answer goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pykcp.clients.errors import SendFailed, TimedOut
from pykcp.clients.http.interface import (
    ClientSession,
    OutgoingRequest,
    OutgoingStream,
    end_to_end,
)
from pykcp.wire.exchange import BodySource, Exchange, Header, Stream
from pykcp.wire.http2.known_answers import PassedHeaders

_log = logging.getLogger(__name__)

_BACKLOG = 64 * 1024
"""Octets that may wait for one side before nothing more is taken from the other."""
_MOST_UNCONSUMED = 4096
"""Octets of an answer that the client took and the server is not told of yet: events of a watch
are smaller, and the server's window is many times as large."""
_NO_BODY = frozenset((204, 304))


@dataclass(frozen=True, slots=True)
class ForwardLimits:
    """0: none, as in kcp's proxies."""

    max_body: int = 0
    """Octets of a request body that is passed on as it comes."""
    first_byte: float = 0.0
    """Seconds that the server has to begin its answer."""
    idle: float = 0.0
    """Seconds in which nothing comes of an answer, after which it is broken off."""


class AnswerRejected(SendFailed):
    """There is an answer, but the client shall not get it."""

    def __init__(self) -> None:
        super().__init__("the answer was rejected")


class RelayObserver(Protocol):
    """Sees what is forwarded, once for each attempt."""

    def accepts(self, status: int, headers: Sequence[Header]) -> bool:
        """Whether the client gets this answer; otherwise forwarding fails with AnswerRejected."""

    def ended(self, status: int, received: int, sent: int) -> None:
        """The end, for whatever reason: octets of the answer's body and of the request's.

        The status is 0 if there was no answer, or none that was accepted.
        """

    def continues(self, stream: Stream, trailers: Sequence[Header]) -> bool:
        """Whether the client gets more after a complete answer that ended with trailers; the
        observer sees to that, and ends the stream."""


GoOn = Callable[[SendFailed], Coroutine[Any, Any, None]]


class Relay:
    """Between an exchange with a client and a stream to a server."""

    __slots__ = (
        "_answer_size", "_body_size", "_continued", "_done", "_exchange", "_first", "_go_on",
        "_headers", "_is_done", "_is_waiting", "_limits", "_observer", "_out", "_source",
        "_status", "_stream", "_timer", "_unconsumed", "_untaken",
    )  # fmt: skip

    def __init__(
        self,
        exchange: Exchange,
        limits: ForwardLimits,
        go_on: GoOn | None = None,
        observer: RelayObserver | None = None,
        continued: Stream | None = None,
    ) -> None:
        """`go_on`: makes what is run if there is no answer at all, of why there is none;
        `continued`: the stream of an answer that this one continues."""
        self._exchange, self._limits, self._continued = exchange, limits, continued
        self._observer = observer
        self._go_on = go_on
        self._done: asyncio.Future[None] | None = None
        self._is_done = False
        self._out: OutgoingStream | None = None
        self._source: BodySource | None = None
        self._stream: Stream | None = None
        self._status = 0
        self._headers: Sequence[Header] = ()
        self._first: list[bytes] = []
        """What came of the answer before it was known whether there is more."""
        self._unconsumed = 0
        """Octets of the answer that the server may not replace by others yet."""
        self._is_waiting = False
        self._untaken = 0
        """The same of the request's body, and the client."""
        self._body_size = self._answer_size = 0
        self._timer: asyncio.TimerHandle | None = None

    # -- how it begins and ends ----------------------------------------------------------------

    def start(self, session: ClientSession, request: OutgoingRequest) -> None:
        """Raises ValueError for a request that cannot be sent."""
        self._out = session.start(request, self)
        if request.body is not None:
            self._body_size = len(request.body)
        else:
            self._source = self._exchange.request.pipe(self)
            self._take_more()
        if self._limits.first_byte:
            self._set_timer(self._limits.first_byte)

    async def run(self, session: ClientSession, request: OutgoingRequest) -> None:
        """Until the end. Raises SendFailed if there is no answer at all."""
        self._done = asyncio.get_running_loop().create_future()
        try:
            self.start(session, request)
        except ValueError as error:
            raise SendFailed(str(error)) from error
        try:
            await self._done
        finally:
            self.cancel()

    def cancel(self) -> None:
        """The client is gone, or the answer is not wanted any more."""
        if self._finish() and self._out is not None:
            self._out.cancel()

    def _finish(self) -> bool:
        """Whether it was not over yet."""
        if self._is_done:
            return False
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        if self._observer is not None:
            self._observer.ended(self._status, self._answer_size, self._body_size)
        return True

    def _complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    # -- the answer ----------------------------------------------------------------------------

    def head_received(self, status: int, headers: Sequence[Header]) -> None:
        if self._is_done:
            return
        if self._observer is not None and not self._observer.accepts(status, headers):
            out = self._out
            self.failed(AnswerRejected())
            if out is not None:
                out.cancel()
            return
        self._status, self._headers = status, end_to_end(headers)
        if self._timer is not None or self._limits.idle:
            self._watch_time()
        if self._continued is not None:
            self._continue_with(self._continued)
        elif status == 101:
            tunnel = self._exchange.tunnel(self._headers, self)
            self._source = tunnel
            self._begin_with(tunnel)
        elif self._out is None or not self._out.is_received:
            # Small answers are complete by then, and are given back in one piece.
            asyncio.get_running_loop().call_soon(self._begin)

    def _continue_with(self, stream: Stream) -> None:
        if self._status == 200:
            self._begin_with(stream)
            return
        out = self._out
        self.failed(SendFailed(f"the server answered {self._status}"))
        if out is not None:
            out.cancel()

    def _begin(self) -> None:
        if self._is_done or self._stream is not None:
            return
        self._begin_with(self._exchange.start(self._status, self._headers))
        first, self._first = self._first, []
        for piece in first:
            self._pass_on(piece)

    def _begin_with(self, stream: Stream) -> None:
        self._stream = stream
        stream.on_close(self._on_client_closed)

    def data_received(self, data: bytes) -> None:
        if self._is_done:
            return
        self._answer_size += len(data)
        if self._stream is None:
            self._first.append(data)
        else:
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        stream = self._stream
        assert stream is not None
        stream.write(data)
        self._unconsumed += len(data)
        if stream.backlog <= _BACKLOG:
            if self._unconsumed >= _MOST_UNCONSUMED:
                self._consume()
        elif not self._is_waiting:
            self._is_waiting = True
            stream.when_relieved(self._consume)
        if self._limits.idle:
            self._watch_time()

    def _consume(self) -> None:
        """The client took it: the server may send more."""
        self._is_waiting = False
        size, self._unconsumed = self._unconsumed, 0
        if size and self._out is not None and not self._is_done:
            self._out.consumed(size)

    def ended(self, trailers: Sequence[Header]) -> None:
        if not self._finish():
            return
        if self._stream is None and not trailers and self._exchange.request.method != "HEAD":
            body = b"" if self._status in _NO_BODY else b"".join(self._first)
            self._exchange.respond(self._status, _without_length(self._headers), body)
        else:
            stream = self._stream or self._exchange.start(self._status, self._headers)
            for piece in self._first:
                stream.write(piece)
            if not trailers or not self._is_continued(stream, trailers):
                stream.end(trailers)
        self._complete()

    def _is_continued(self, stream: Stream, trailers: Sequence[Header]) -> bool:
        return self._observer is not None and self._observer.continues(stream, trailers)

    def failed(self, error: SendFailed) -> None:
        if not self._finish():
            return
        has_begun = self._exchange.responded and self._continued is None
        if self._stream is not None or has_begun:
            _log.warning("an answer was broken off: %s", error)
            if self._stream is not None:
                self._stream.abort()
            self._complete()
        elif self._done is not None:
            if not self._done.done():
                self._done.set_exception(error)
        elif self._go_on is not None:
            self._exchange.proceed(self._go_on(error))

    def _on_client_closed(self) -> None:
        self.cancel()
        self._complete()

    # -- the request's body, and octets of other protocols ---------------------------------------

    def write(self, data: bytes) -> None:
        if self._is_done or self._out is None:
            return
        self._body_size += len(data)
        if self._limits.max_body and self._body_size > self._limits.max_body:
            self.failed(SendFailed("http: request body too large"))
            self._out.cancel()
            return
        self._out.write(data)
        self._untaken += len(data)
        if self._out.backlog <= _BACKLOG:
            self._take_more()

    def end(self) -> None:
        if self._out is not None and not self._is_done:
            self._out.end()

    def fail(self, _error: Exception) -> None:
        self.cancel()
        self._complete()

    def relieved(self) -> None:
        self._take_more()

    def _take_more(self) -> None:
        """The server took it: the client may send more."""
        if self._source is not None and not self._is_done:
            size, self._untaken = self._untaken, 0
            if size:
                self._source.consumed(size)

    # -- time ----------------------------------------------------------------------------------

    def _watch_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._limits.idle:
            self._set_timer(self._limits.idle)

    def _set_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_late)

    def _on_late(self) -> None:
        out = self._out
        self.failed(TimedOut())
        if out is not None:
            out.cancel()


def _without_length(headers: Sequence[Header]) -> Sequence[Header]:
    if isinstance(headers, PassedHeaders):
        return headers.without_length()
    return [header for header in headers if header[0] != "content-length"]
