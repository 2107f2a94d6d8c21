"""The receiving half of the HTTP/2 state machine, the same for servers and clients (RFC 9113).

Octets go in through `receive`, which returns what they meant. Here are frames, header blocks and
the flow control of bodies; what a message means is up to the side: see `machine` (the server's)
and `client`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from pykcp.wire.http2 import frames
from pykcp.wire.http2.control import SMALL_INCREMENT, Control, Limits, check_priority
from pykcp.wire.http2.events import BodyReceived, Event, StreamState
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
    MAX_WINDOW,
    PADDED,
    PROTOCOL_ERROR,
    SETTINGS,
    STREAM_CLOSED,
    ConnectionFault,
    StreamFault,
)
from pykcp.wire.http2.hpack import Decoder, Field, HeaderListTooLarge, HpackError
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.sending import UnsentAccount

_HEADS_REMEMBERED = 64
_FRAMES_PER_TURN = 128
"""At some microseconds a frame that is less than a millisecond."""
_LONG_BLOCK = 4096
"""Octets of a header block above which it is decoded in steps, and not remembered."""
_SMALL_DATA = 64
"""Octets of a piece of a body that hardly bring it forward."""
_OVERSIZE_COST = 100
"""What a head that is too large counts, in frames that bring nothing forward."""
_WINDOW_UPDATE = 4 << 8 | frames.WINDOW_UPDATE
"""Length and type of such a frame."""
_WINDOW_UPDATE_KIND = bytes((frames.WINDOW_UPDATE,))
_unpack_header = frames.HEADER.unpack_from
_unpack_windows = frames.WINDOW_FRAME.iter_unpack
_WINDOW_FRAME_SIZE = frames.WINDOW_FRAME.size

MessageHead = TypeVar("MessageHead")
"""What a side makes of the header fields of the messages that it receives."""
FrameHandler: TypeAlias = Callable[[Any, int, int, bytes], None]


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


class Receiving(Control, Generic[MessageHead]):
    """Frames in, events out."""

    _frame_handlers: ClassVar[Mapping[int, FrameHandler]] = {}
    """By kind of frame: `frame_handlers` of the class."""
    _preface_missing = b""
    """What the other side has to send before its first frame."""

    def __init__(
        self, settings: Limits, huffman: Huffman, now: float, unsent: UnsentAccount | None = None
    ) -> None:
        super().__init__(settings, now, unsent)
        self._decoder = Decoder(
            huffman, settings.max_header_list_size, max_fields=settings.max_header_fields
        )
        self._decoding: _LongBlock | None = None
        self._heads: dict[bytes, MessageHead] = {}
        self._heads_generation = 0
        self._buffer = b""
        self._has_settings = False
        self._partial: _PartialBlock | None = None
        self._partial_since = now
        self.is_behind = False
        """Octets wait that `receive` had no time for: call it again, perhaps with nothing."""
        self.has_news = True
        """The last input was more than window updates."""
        self._receive_window = settings.connection_window
        self._half_window = settings.connection_window // 2
        self._received = 0

    # -- what a side says ----------------------------------------------------------------------

    def _check_sender(self, stream_id: int) -> None:
        """Whether the other side may send HEADERS on a stream. Raises ConnectionFault."""
        raise NotImplementedError

    def _on_message(self, stream_id: int, flags: int, block: bytes | list[Field]) -> None:
        """Header fields have come, encoded or (long ones) decoded. Raises StreamFault."""
        raise NotImplementedError

    def _make_head(self, fields: list[Field]) -> MessageHead:
        """Check fields and make a head of them. Raises MalformedMessage."""
        raise NotImplementedError

    # -- receiving -----------------------------------------------------------------------------

    @property
    def waiting_since(self) -> float | None:
        """Since when the rest of a frame, a header block or the greeting has been missing."""
        if self.is_behind:
            return None
        if self._partial is not None:
            return self._partial.since
        return self._partial_since if self._buffer or not self._has_settings else None

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

    def take_output(
        self, room: int, handle: Callable[[list[Event]], None]
    ) -> list[bytes | memoryview]:
        """What is to be written in this turn, with at most `room` octets of bodies."""
        self.room = room
        if self.ready:
            self.pump()
            if self.events:
                handle(self.take_events())
        out, self.out = self.out, []
        return out

    @property
    def has_more(self) -> bool:
        """Something waits that neither the windows nor the room hold back."""
        return bool(self.ready) and self.window > 0

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
        is_window = data[position + 3 : position + 4] == _WINDOW_UPDATE_KIND
        if is_window and self._partial is None and self._has_settings and not self._decoding:
            position = self._receive_windows(data, position)
        self.has_news = position < size
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
            stream_id &= MAX_STREAM_ID
            try:
                self._on_frame(word & 0xFF, flags, stream_id, data[position + 9 : end])
            except StreamFault as fault:
                self._fail_stream(fault)
            position = end
        if self._decoding is not None:
            self.is_behind = True
        if position < size:
            self._buffer = data[position:]
            if position or not was_waiting:
                self._partial_since = self._now

    def _receive_windows(self, data: bytes, position: int) -> int:
        """Take window updates at the beginning of the input; where the rest begins.

        Go's clients send two for every few events of a watch, and nothing else.
        """
        end = len(data) - (len(data) - position) % _WINDOW_FRAME_SIZE
        streams = self.streams
        for word, _flags, stream_id, increment in _unpack_windows(memoryview(data)[position:end]):
            if word != _WINDOW_UPDATE:
                break
            position += _WINDOW_FRAME_SIZE
            stream = streams.get(stream_id)
            sender = self if not stream_id else stream
            if sender is None or not SMALL_INCREMENT <= increment <= MAX_WINDOW - sender.window:
                self._on_window(stream_id, increment)
            elif stream is None or not stream.pending_size:
                sender.window += increment
            else:
                self.widen(stream, increment)
        return position

    def _on_window(self, stream_id: int, increment: int) -> None:
        try:
            self._on_increment(stream_id & MAX_STREAM_ID, increment & MAX_WINDOW)
        except StreamFault as fault:
            self._fail_stream(fault)

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
            handler = self._frame_handlers.get(kind)
            if handler is None:
                self._count_idle_frame()  # unknown kinds are ignored, but not for ever
            else:
                handler(self, flags, stream_id, payload)

    # -- headers -------------------------------------------------------------------------------

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._check_sender(stream_id)
        block = frames.without_padding(flags, payload) if flags & PADDED else payload
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
        else:
            self._on_message(stream_id, flags, block)

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
            self._on_message(block.stream_id, block.flags, fields)
        except StreamFault as fault:
            self._fail_stream(fault)

    def _fields(self, block: bytes | list[Field]) -> list[Field]:
        return self._decode(block) if isinstance(block, bytes) else block

    def _head(self, block: bytes | list[Field]) -> MessageHead | None:
        """The head that a block means; None if it is too large. Raises MalformedMessage."""
        if not isinstance(block, bytes):
            return self._checked(block)
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

    def _checked(self, fields: list[Field]) -> MessageHead | None:
        """None: there are too many of them, or they are too long."""
        if self._decoder.is_oversize:
            self._count_idle_frame(_OVERSIZE_COST)
            return None
        return self._make_head(fields)

    def _remember(self, block: bytes, head: MessageHead, generation: int) -> None:
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

    # -- data ----------------------------------------------------------------------------------

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)  # padding counts
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "connection window exceeded")
        self._received += size
        if self._received > self._half_window:
            self._top_up()
        stream = self.streams.get(stream_id)
        if stream is None or not stream.is_remote_open:
            self._on_stray_data(stream_id)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(stream_id, FLOW_CONTROL_ERROR, "stream window exceeded")
        data = payload
        if flags & PADDED:
            data = frames.without_padding(flags, payload)
            self.consume(stream, size - len(data))
        if stream.expected is not None:
            stream.expected -= len(data)
            if stream.expected < 0:
                raise StreamFault(stream_id, PROTOCOL_ERROR, "body longer than announced")
        if flags & END_STREAM:
            self._finish_body(stream, data)
        else:
            if len(data) < _SMALL_DATA:
                if stream.has_small_data:  # the end of a streamed body is often that small
                    self._count_idle_frame()
                stream.has_small_data = True
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

    def _top_up(self) -> None:
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


def frame_handlers(side: type[Receiving[Any]]) -> dict[int, FrameHandler]:
    """What a side does with frames other than HEADERS and DATA."""
    return {
        frames.PRIORITY: side._on_priority,
        frames.RST_STREAM: side._on_reset,
        frames.SETTINGS: side._on_settings,
        frames.PUSH_PROMISE: side._on_push_promise,
        frames.PING: side._on_ping,
        frames.GOAWAY: side._on_goaway,
        frames.WINDOW_UPDATE: side._on_window_update,
        frames.CONTINUATION: side._on_continuation,
    }
