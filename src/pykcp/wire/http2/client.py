"""The client side of HTTP/2 as a pure state machine (RFC 9113).

Requests are opened with `open`, their bodies sent with `send` and `end`; bytes from the server
are passed to `receive`, which returns events; bytes for the server are appended to `out`.
There is no socket, no clock (`receive` gets the time) and no event loop.

A stream's window is refilled when its data has been `consume`d: a server cannot send more of an
answer than one stream window ahead of its reader. The connection's window is refilled as data
arrives, so that one answer that is not read does not hold up the others.

Limits against hostile servers: header list size, number of fields and of CONTINUATION frames,
windows, announced lengths, and a leaky bucket for frames that bring nothing forward. Pushes are
refused, interim answers (1xx) are counted and dropped.
"""

from __future__ import annotations

from typing import cast

from pykcp.wire.heads import MalformedMessage, ResponseHead, check_trailers, http2_response_head
from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import ClientStream, ResponseReceived, StreamLost, StreamState
from pykcp.wire.http2.frames import (
    ACK,
    CANCEL,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    MAX_STREAM_ID,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    ConnectionFault,
    StreamFault,
)
from pykcp.wire.http2.hpack import Field
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.known_answers import KnownAnswers
from pykcp.wire.http2.receiving import Receiving, frame_handlers
from pykcp.wire.settings import ClientSettings

_FIRST_STREAMS = 100
"""Streams that are opened before the server has said how many it allows, as in Go."""
_INTERIM_COST = 10
"""What an interim answer counts, in frames that bring nothing forward."""
_NO_BODY = frozenset((204, 304))
_PING = b"pykcp   "


class Http2Client(Receiving[ResponseHead]):
    """The client's side of one HTTP/2 connection."""

    def __init__(self, settings: ClientSettings, huffman: Huffman, now: float) -> None:
        super().__init__(settings, huffman, now)
        self._most_streams = settings.max_streams
        self.max_streams = min(_FIRST_STREAMS, settings.max_streams)
        """How many streams may be open at once."""
        self._has_limit = False
        self._known = KnownAnswers()
        self.failure = ""
        """Why the server is going away, if it said so."""

    def _greeting(self) -> bytes:
        return frames.PREFACE + super()._greeting()

    def _announced(self) -> dict[int, int]:
        return {frames.SETTINGS_ENABLE_PUSH: 0}

    @property
    def _last_answered(self) -> int:
        return 0  # the server opens none

    @property
    def can_open(self) -> bool:
        """Whether another request fits on this connection now."""
        return (
            len(self.streams) < self.max_streams
            and not self.is_going_away
            and not self.is_failed
            and self.last_id < MAX_STREAM_ID - 2
        )

    def open(self, block: bytes, ends: bool, is_head_request: bool = False) -> ClientStream:
        """Send a request's header block; `ends`: it has no body. Only while `can_open`."""
        self.last_id += 1 if not self.last_id else 2
        stream = ClientStream(
            self.last_id, self._initial_window, self._settings.first_window, is_head_request
        )
        self.streams[stream.id] = stream
        self.send_headers(stream, block, ends)
        return stream

    def ping(self) -> None:
        """Ask for a sign of life; whatever comes next is one."""
        self.out.append(frames.frame(PING, 0, 0, _PING))

    def cancel(self, stream: StreamState) -> None:
        """The answer is not wanted any more."""
        self.reset(stream, CANCEL)

    # -- answers -------------------------------------------------------------------------------

    def _check_sender(self, stream_id: int) -> None:
        self._check_not_idle(stream_id)

    def _check_not_idle(self, stream_id: int) -> None:
        if not stream_id & 1 or stream_id > self.last_id:
            raise ConnectionFault(PROTOCOL_ERROR, "frame on an idle stream")

    def _make_head(self, fields: list[Field]) -> ResponseHead:
        return http2_response_head(fields, self._decoder.has_seen_invalid_field)

    def _head(self, block: bytes | list[Field]) -> ResponseHead | None:
        if not isinstance(block, bytes):
            return super()._head(block)
        head = self._known.read(block)
        if head is None:
            head = super()._head(block)
            if head is not None:
                self._known.learn(block, head)
        return head

    def _on_message(self, stream_id: int, flags: int, block: bytes | list[Field]) -> None:
        stream = cast("ClientStream | None", self.streams.get(stream_id))
        if stream is None or not stream.is_remote_open:
            self._fields(block)  # only for the table that both sides keep
            self._on_stray_data(stream_id)
        elif stream.has_head:
            self._on_trailers(stream, flags, self._fields(block))
        else:
            self._on_head(stream, bool(flags & END_STREAM), block)

    def _on_head(self, stream: ClientStream, is_last: bool, block: bytes | list[Field]) -> None:
        try:
            head = self._head(block)
        except MalformedMessage as error:
            raise StreamFault(stream.id, PROTOCOL_ERROR, str(error)) from None
        if head is None:
            raise StreamFault(stream.id, ENHANCE_YOUR_CALM, "header list too large")
        if head.status < 200:
            if is_last:
                raise StreamFault(stream.id, PROTOCOL_ERROR, "interim answer that ends the stream")
            self._count_idle_frame(_INTERIM_COST)
            return
        stream.has_head = True
        has_body = not stream.is_head_request and head.status not in _NO_BODY
        stream.expected = head.content_length if has_body else 0
        if is_last and stream.expected:
            raise StreamFault(stream.id, PROTOCOL_ERROR, "body shorter than announced")
        self.events.append(ResponseReceived(stream, head, is_last))
        if is_last:
            self._close_remote(stream)

    def _on_trailers(self, stream: ClientStream, flags: int, fields: list[Field]) -> None:
        if not flags & END_STREAM:
            raise StreamFault(stream.id, PROTOCOL_ERROR, "trailers that do not end the stream")
        if self._decoder.is_oversize:
            raise StreamFault(stream.id, ENHANCE_YOUR_CALM, "trailers too large")
        try:
            check_trailers(fields)
        except MalformedMessage as error:
            raise StreamFault(stream.id, PROTOCOL_ERROR, str(error)) from None
        stream.received_trailers = fields
        self._finish_body(stream, b"")

    def _finish_body(self, stream: StreamState, data: bytes) -> None:
        if not cast("ClientStream", stream).has_head:
            raise StreamFault(stream.id, PROTOCOL_ERROR, "answer without a head")
        super()._finish_body(stream, data)
        self._close_remote(stream)

    def _close_remote(self, stream: StreamState) -> None:
        stream.is_remote_open = False
        if stream.is_local_open:
            # The response is complete; the server will not read the rest of the request.
            self._send_reset(stream.id, CANCEL)
        self.forget(stream)

    def _close_local(self, stream: StreamState) -> None:
        stream.is_local_open = False
        if not stream.is_remote_open:
            self.forget(stream)

    # -- frames of the connection --------------------------------------------------------------

    def _on_setting(self, setting: int, value: int) -> None:
        if setting == frames.SETTINGS_MAX_CONCURRENT_STREAMS:
            self.max_streams = min(value, self._most_streams)
        elif setting == frames.SETTINGS_ENABLE_PUSH and value:
            raise ConnectionFault(PROTOCOL_ERROR, "ENABLE_PUSH from a server")
        else:
            super()._on_setting(setting, value)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._has_limit:
            self._has_limit = True
            self.max_streams = self._most_streams  # unless the server names a limit
        super()._on_settings(flags, stream_id, payload)

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not flags & ACK:
            super()._on_ping(flags, stream_id, payload)
        elif stream_id or len(payload) != 8:
            raise ConnectionFault(PROTOCOL_ERROR, "bad PING")
        else:
            self._count_idle_frame()

    def _on_reset(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad RST_STREAM")
        self._check_not_idle(stream_id)
        stream = self.streams.get(stream_id)
        if stream is None:
            self._count_idle_frame()
        else:
            self._lose(stream, frames.U32.unpack(payload)[0])

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad GOAWAY")
        self._count_idle_frame()
        last, code = frames.TWO_U32.unpack_from(payload)
        self.is_going_away = True
        if code:
            self.failure = f"http2: server sent GOAWAY with error code {code}"
        for stream in [s for s in self.streams.values() if s.id > last & MAX_STREAM_ID]:
            self._lose(stream, REFUSED_STREAM)

    def _lose(self, stream: StreamState, code: int) -> None:
        self.forget(stream)
        self.events.append(StreamLost(stream, code))

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ConnectionFault(PROTOCOL_ERROR, "PUSH_PROMISE, which was switched off")


Http2Client._frame_handlers = frame_handlers(Http2Client)
