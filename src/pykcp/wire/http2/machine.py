"""The server side of HTTP/2 as a pure state machine (RFC 9113).

Input is passed to `receive`, which returns events; output is appended to `out`, a
list that the driver joins, writes to the socket and clears.  There is no socket,
no clock (`receive` gets the time) and no event loop.

Sending.  Data of a response is appended to `out` as long as the client's windows
and the `room` of this turn allow; the rest waits on its stream.  `pump` sends
waiting data, one frame of each ready stream in turn, so that one long list does
not block the watches on the same connection.

Receiving.  The connection's window is refilled as data arrives, a stream's when
its data has been `consume`d: a stream that the application does not read uses
at most one stream window of memory.

If a request arrives and is reset within one `receive`, its event is still returned
but its stream is already closed; the caller must check before it starts to work.

Limits against abuse: concurrent streams, header list size, CONTINUATION count,
and two leaky buckets: one for streams reset by the client, one for frames that
make no progress.
"""

from __future__ import annotations

from pykcp.wire.heads import Head, MalformedMessage, RequestHeads, check_trailers
from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import RequestReceived, StreamState
from pykcp.wire.http2.frames import (
    END_STREAM,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    ConnectionFault,
    StreamFault,
)
from pykcp.wire.http2.hpack import Field
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.receiving import Receiving, frame_handlers
from pykcp.wire.http2.sending import UnsentAccount
from pykcp.wire.settings import WireSettings

_GAPS_REMEMBERED = 16


class Http2(Receiving[Head]):
    """The server's side of one HTTP/2 connection."""

    def __init__(
        self,
        settings: WireSettings,
        huffman: Huffman,
        now: float,
        unsent: UnsentAccount | None = None,
    ) -> None:
        self._max_streams = settings.max_concurrent_streams
        super().__init__(settings, huffman, now, unsent)
        self._first_window, self._stream_window = settings.first_window, settings.stream_window
        self._preface_missing = frames.PREFACE
        self._gaps: list[tuple[int, int]] = []
        self._request_heads = RequestHeads()
        self.orphans = 0
        """Streams that are over while the caller still works for them; they count as open."""

    def _announced(self) -> dict[int, int]:
        return {frames.SETTINGS_MAX_CONCURRENT_STREAMS: self._max_streams}

    def _check_sender(self, stream_id: int) -> None:
        if not stream_id & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "stream is not the client's")

    def _on_message(self, stream_id: int, flags: int, block: bytes | list[Field]) -> None:
        if stream_id <= self.last_id:
            self._on_trailers(stream_id, flags, self._fields(block))
        else:
            self._on_head(stream_id, flags, block)

    def _make_head(self, fields: list[Field]) -> Head:
        return self._request_heads.make(fields, self._decoder.has_seen_invalid_field)

    def _on_head(self, stream_id: int, flags: int, block: bytes | list[Field]) -> None:
        if stream_id > self.last_id + 2:
            self._gaps = [*self._gaps[1 - _GAPS_REMEMBERED :], (self.last_id, stream_id)]
        if self.is_going_away:
            self._fields(block)  # only for the table that both sides keep
            return
        self.last_id = stream_id
        try:
            head = self._head(block)
        except MalformedMessage as error:
            raise StreamFault(stream_id, PROTOCOL_ERROR, str(error)) from None
        if len(self.streams) + self.orphans >= self._max_streams:
            self._count_reset()
            raise StreamFault(stream_id, REFUSED_STREAM, "too many streams")
        self._open(stream_id, head, bool(flags & END_STREAM))

    def _open(self, stream_id: int, head: Head | None, is_complete: bool) -> None:
        if head is not None and is_complete and head.content_length:
            raise StreamFault(stream_id, PROTOCOL_ERROR, "body shorter than announced")
        stream = StreamState(stream_id, self._initial_window, self._first_window)
        self.streams[stream_id] = stream
        if is_complete:
            stream.is_remote_open = False
        elif head is not None:
            stream.expected = head.content_length
        self.events.append(RequestReceived(stream, head, is_complete))

    def _on_trailers(self, stream_id: int, flags: int, fields: list[Field]) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id in self._reset_ids:
                return
            if any(low < stream_id < high for low, high in self._gaps):
                raise ConnectionFault(PROTOCOL_ERROR, "stream identifier went back")
            raise ConnectionFault(STREAM_CLOSED, "HEADERS on a closed stream")
        if not stream.is_remote_open:
            raise StreamFault(stream_id, STREAM_CLOSED, "HEADERS after the end")
        if not flags & END_STREAM:
            raise StreamFault(stream_id, PROTOCOL_ERROR, "trailers that do not end the stream")
        try:
            check_trailers(fields)
        except MalformedMessage as error:
            raise StreamFault(stream_id, PROTOCOL_ERROR, str(error)) from None
        self._finish_body(stream, b"")

    def widen_receiving(self, stream: StreamState) -> None:
        """Grow the stream's receive window to that of an authenticated client."""
        more = self._stream_window - stream.receive_limit
        if more > 0 and stream.is_remote_open:
            stream.receive_limit += more
            stream.receive_window += more
            self.out.append(frames.window_update(stream.id, more))


Http2._frame_handlers = frame_handlers(Http2)
