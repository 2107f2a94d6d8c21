"""HTTP/2 as a pure state machine, the server's side (RFC 9113).

Octets go in through `receive`, which returns what they meant; octets come out of
`out`, a list that whoever holds the socket joins and empties.  There is no
socket here, no clock (`receive` is told the time) and no event loop.

Sending.  An answer's octets go straight to `out` while the client's windows and
the `room` of this turn allow; the rest waits on its stream.  `pump` moves what
waits, a frame of each ready stream in turn, so that one long list does not hold
up the watches beside it.

Receiving.  The connection's window is topped up as data arrives, a stream's when
its data has been `consume`d: a stream that the application does not read holds
at most one stream window of memory.

A request that comes and is broken off within one `receive` leaves its event
behind, but its stream is closed by then; the caller must look before it works.

Limits against abuse: concurrent streams, header list size, CONTINUATION count,
and two leaky buckets: one for streams broken off by the client, one for frames
that bring nothing forward.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from pykcp.wire.heads import Head, MalformedRequest, check_trailers, http2_head
from pykcp.wire.http2 import frames
from pykcp.wire.http2.control import Control, check_priority
from pykcp.wire.http2.events import BodyReceived, Event, RequestReceived, StreamState
from pykcp.wire.http2.frames import (
    ACK,
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    HAS_PRIORITY,
    HEADERS,
    MAX_STREAM_ID,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    ConnectionFault,
    StreamFault,
)
from pykcp.wire.http2.hpack import Decoder, Field, HeaderListTooLarge, HpackError
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.sending import UnsentAccount
from pykcp.wire.settings import WireSettings

_HEADS_REMEMBERED = 64
_FRAMES_PER_TURN = 128
"""At some microseconds a frame that is less than a millisecond."""
_LONG_BLOCK = 4096
"""Octets of a header block above which it is decoded in steps, and not remembered."""
_SMALL_DATA = 64
"""Octets of a piece of a body that hardly bring it forward."""
_GAPS_REMEMBERED = 16
_OVERSIZE_COST = 100
"""What a head that is too large counts, in frames that bring nothing forward."""
_unpack_header = frames.HEADER.unpack_from


class _PartialBlock:
    """A header block whose CONTINUATION frames are still to come."""

    __slots__ = ("count", "flags", "pieces", "since", "size", "stream_id")

    def __init__(self, stream_id: int, flags: int, piece: bytes, since: float) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.pieces = [piece]
        self.since = since
        self.size = len(piece)
        self.count = 0


class _LongBlock:
    """A header block that is being decoded in steps."""

    __slots__ = ("flags", "steps", "stream_id")

    def __init__(
        self, stream_id: int, flags: int, steps: Generator[None, None, list[Field]]
    ) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.steps = steps


class Http2(Control):
    """The server's side of one HTTP/2 connection."""

    def __init__(
        self,
        settings: WireSettings,
        huffman: Huffman,
        now: float,
        unsent: UnsentAccount | None = None,
    ) -> None:
        super().__init__(settings, now, unsent)
        self._decoder = Decoder(
            huffman, settings.max_header_list_size, max_fields=settings.max_header_fields
        )
        self._decoding: _LongBlock | None = None
        self._heads: dict[bytes, Head] = {}
        self._heads_generation = 0
        self._buffer = b""
        self._preface_missing = frames.PREFACE
        self._has_settings = False
        self._partial: _PartialBlock | None = None
        self._partial_since = now
        self.is_behind = False
        """Octets wait that `receive` had no time for: call it again, perhaps with nothing."""
        self._receive_window = settings.connection_window
        self._received = 0
        self._gaps: list[tuple[int, int]] = []
        self.orphans = 0
        """Streams that are over while the caller still works for them; they count as open."""

    @property
    def waiting_since(self) -> float | None:
        """Since when the rest of a frame, a header block or the greeting has been missing."""
        if self.is_behind:
            return None
        if self._partial is not None:
            return self._partial.since
        return self._partial_since if self._buffer or not self._has_settings else None

    # -- receiving -----------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take octets from the client; what they meant, in order."""
        self._now = now
        if not self.is_failed:
            try:
                self._receive(data)
            except ConnectionFault as fault:
                self.fail(fault.code, fault.reason)
        if self.is_failed:
            self.is_behind = False
            self._buffer = b""
            self._decoding = None
        return self.take_events()

    def take_events(self) -> list[Event]:
        """What happened since, by receiving or by pumping."""
        events, self.events = self.events, []
        return events

    def _receive(self, data: bytes) -> None:
        was_waiting = bool(self._buffer)
        if was_waiting:
            data = self._buffer + data
            self._buffer = b""
        position = 0
        if self._preface_missing:
            position = self._receive_preface(data)
        size = len(data)
        max_frame = self._settings.max_frame
        left = _FRAMES_PER_TURN
        if self._decoding is not None:
            self._decode_step()
        self.is_behind = False
        while size - position >= 9:
            if not left or self._decoding is not None:
                self.is_behind = True
                break
            left -= 1
            word, flags, stream_id = _unpack_header(data, position)
            length = word >> 8
            if length > max_frame:
                raise ConnectionFault(FRAME_SIZE_ERROR, "frame too large")
            end = position + 9 + length
            if end > size:
                break
            try:
                self._on_frame(
                    word & 0xFF, flags, stream_id & MAX_STREAM_ID, data[position + 9 : end]
                )
            except StreamFault as fault:
                self._fail_stream(fault)
            position = end
        if self._decoding is not None:
            self.is_behind = True
        if position < size:
            self._buffer = data[position:]
            if position or not was_waiting:
                self._partial_since = self._now

    def _receive_preface(self, data: bytes) -> int:
        missing = self._preface_missing
        piece = data[: len(missing)]
        if not missing.startswith(piece):
            raise ConnectionFault(PROTOCOL_ERROR, "not the HTTP/2 preface")
        self._preface_missing = missing[len(piece) :]
        return len(piece)

    def _on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._partial is not None and kind != CONTINUATION:
            raise ConnectionFault(PROTOCOL_ERROR, "header block interrupted")
        if not self._has_settings:
            if kind != SETTINGS or flags & ACK:
                raise ConnectionFault(PROTOCOL_ERROR, "first frame is not SETTINGS")
            self._has_settings = True
        if kind == HEADERS:
            self._on_headers(flags, stream_id, payload)
        elif kind == DATA:
            self._on_data(flags, stream_id, payload)
        else:
            handler = _HANDLERS.get(kind)
            if handler is None:
                self._count_idle_frame()  # unknown kinds are ignored, but not for ever
            else:
                handler(self, flags, stream_id, payload)

    # -- headers -------------------------------------------------------------------------------

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "stream is not the client's")
        block = frames.without_padding(flags, payload)
        if flags & HAS_PRIORITY:
            check_priority(stream_id, block)
            block = block[5:]
        if flags & END_HEADERS:
            self._on_block(stream_id, flags, block)
        else:
            self._partial = _PartialBlock(stream_id, flags, block, self._now)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        partial = self._partial
        if partial is None or partial.stream_id != stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION of nothing")
        partial.pieces.append(payload)
        partial.size += len(payload)
        partial.count += 1
        if (
            partial.size > self._settings.max_header_list_size
            or partial.count > self._settings.max_continuations
        ):
            raise ConnectionFault(ENHANCE_YOUR_CALM, "header block too large")
        if flags & END_HEADERS:
            self._partial = None
            self._on_block(stream_id, partial.flags, b"".join(partial.pieces))

    def _on_block(self, stream_id: int, flags: int, block: bytes) -> None:
        if len(block) > _LONG_BLOCK:
            steps = self._decoder.decode_in_steps(block)
            self._decoding = _LongBlock(stream_id, flags, steps)
            return
        if stream_id <= self.last_id:
            self._on_trailers(stream_id, flags, self._decode(block))
            return
        self._on_head(stream_id, flags, block)

    def _decode_step(self) -> None:
        """Go on with a long block; the frames behind it wait for that."""
        decoding = self._decoding
        assert decoding is not None
        try:
            next(decoding.steps)
        except StopIteration as end:
            self._decoding = None
            self._on_long_block(decoding, end.value)
        except HeaderListTooLarge as error:
            raise ConnectionFault(ENHANCE_YOUR_CALM, str(error)) from None
        except HpackError as error:
            raise ConnectionFault(COMPRESSION_ERROR, str(error)) from None

    def _on_long_block(self, block: _LongBlock, fields: list[Field]) -> None:
        try:
            if block.stream_id <= self.last_id:
                self._on_trailers(block.stream_id, block.flags, fields)
            else:
                self._on_head(block.stream_id, block.flags, fields)
        except StreamFault as fault:
            self._fail_stream(fault)

    def _on_head(self, stream_id: int, flags: int, block: bytes | list[Field]) -> None:
        if stream_id > self.last_id + 2:
            self._gaps = [*self._gaps[1 - _GAPS_REMEMBERED :], (self.last_id, stream_id)]
        if self.is_going_away:
            if isinstance(block, bytes):
                self._decode(block)  # only for the table that both sides keep
            return
        self.last_id = stream_id
        try:
            head = self._head(block) if isinstance(block, bytes) else self._checked(block)
        except MalformedRequest as error:
            raise StreamFault(stream_id, PROTOCOL_ERROR, str(error)) from None
        if len(self.streams) + self.orphans >= self._settings.max_concurrent_streams:
            self._count_reset()
            raise StreamFault(stream_id, REFUSED_STREAM, "too many streams")
        self._open(stream_id, head, bool(flags & END_STREAM))

    def _open(self, stream_id: int, head: Head | None, is_complete: bool) -> None:
        if head is not None and is_complete and head.content_length:
            raise StreamFault(stream_id, PROTOCOL_ERROR, "body shorter than announced")
        stream = StreamState(stream_id, self._initial_window, self._settings.first_window)
        self.streams[stream_id] = stream
        if is_complete:
            stream.is_remote_open = False
        elif head is not None:
            stream.expected = head.content_length
        self.events.append(RequestReceived(stream, head, is_complete))

    def _head(self, block: bytes) -> Head | None:
        decoder = self._decoder
        generation = decoder.generation
        if generation == self._heads_generation:
            known = self._heads.get(block)
            if known is not None:
                return known
        head = self._checked(self._decode(block))
        if head is not None and decoder.generation == generation:
            self._remember(block, head, generation)
        return head

    def _checked(self, fields: list[Field]) -> Head | None:
        """None: there are too many of them, or they are too long."""
        if self._decoder.is_oversize:
            self._count_idle_frame(_OVERSIZE_COST)
            return None
        return http2_head(fields, self._decoder.has_seen_invalid_field)

    def _remember(self, block: bytes, head: Head, generation: int) -> None:
        if self._heads_generation != generation or len(self._heads) >= _HEADS_REMEMBERED:
            self._heads = {}
            self._heads_generation = generation
        self._heads[block] = head

    def _decode(self, block: bytes) -> list[Field]:
        try:
            return self._decoder.decode(block)
        except HeaderListTooLarge as error:
            raise ConnectionFault(ENHANCE_YOUR_CALM, str(error)) from None
        except HpackError as error:
            raise ConnectionFault(COMPRESSION_ERROR, str(error)) from None

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
        except MalformedRequest as error:
            raise StreamFault(stream_id, PROTOCOL_ERROR, str(error)) from None
        self._finish_body(stream, b"")

    # -- data ----------------------------------------------------------------------------------

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)  # padding counts
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "connection window exceeded")
        self._top_up(size)
        stream = self.streams.get(stream_id)
        if stream is None or not stream.is_remote_open:
            self._on_stray_data(stream_id)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(stream_id, FLOW_CONTROL_ERROR, "stream window exceeded")
        data = frames.without_padding(flags, payload)
        if size > len(data):
            self.consume(stream, size - len(data))
        if stream.expected is not None:
            stream.expected -= len(data)
            if stream.expected < 0:
                raise StreamFault(stream_id, PROTOCOL_ERROR, "body longer than announced")
        if flags & END_STREAM:
            self._finish_body(stream, data)
        else:
            if len(data) < _SMALL_DATA:
                self._count_idle_frame()
            if data:
                self.events.append(BodyReceived(stream, data, is_last=False))

    def _finish_body(self, stream: StreamState, data: bytes) -> None:
        if stream.expected:
            raise StreamFault(stream.id, PROTOCOL_ERROR, "body shorter than announced")
        stream.is_remote_open = False
        self.events.append(BodyReceived(stream, data, is_last=True))

    def _on_stray_data(self, stream_id: int) -> None:
        self._check_not_idle(stream_id)
        if stream_id <= self.last_id and stream_id not in self._reset_ids:
            raise StreamFault(stream_id, STREAM_CLOSED, "DATA on a closed stream")

    def _top_up(self, size: int) -> None:
        self._received += size
        if self._received > self._settings.connection_window // 2:
            self.out.append(frames.window_update(0, self._received))
            self._receive_window += self._received
            self._received = 0

    def consume(self, stream: StreamState, size: int) -> None:
        """The caller is done with that much of a stream's data: let the client send more."""
        if not stream.is_remote_open:
            return
        stream.consumed += size
        if stream.consumed > stream.receive_limit // 2:
            self.out.append(frames.window_update(stream.id, stream.consumed))
            stream.receive_window += stream.consumed
            stream.consumed = 0

    def widen_receiving(self, stream: StreamState) -> None:
        """The client may send more at a time than anybody may."""
        more = self._settings.stream_window - stream.receive_limit
        if more > 0 and stream.is_remote_open:
            stream.receive_limit += more
            stream.receive_window += more
            self.out.append(frames.window_update(stream.id, more))


_HANDLERS: dict[int, Callable[[Http2, int, int, bytes], None]] = {
    frames.PRIORITY: Http2._on_priority,
    frames.RST_STREAM: Http2._on_reset,
    frames.SETTINGS: Http2._on_settings,
    frames.PUSH_PROMISE: Http2._on_push_promise,
    frames.PING: Http2._on_ping,
    frames.GOAWAY: Http2._on_goaway,
    frames.WINDOW_UPDATE: Http2._on_window_update,
    frames.CONTINUATION: Http2._on_continuation,
}
