"""The sending half of the HTTP/2 state machine: windows, turns and waiting octets.

See `http2` for the whole.  `SendQueue` owns `out`, the octets for the socket, and
knows how much of which stream may go there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import Event, Relieved, StreamEnded, StreamState
from pykcp.wire.http2.frames import (
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MIN_MAX_FRAME,
    NO_ERROR,
)
from pykcp.wire.http2.hpack import HeaderEncoder

LARGEST_FRAME_SENT = 65536
"""Even if a client takes larger ones: a frame cannot be interrupted by another stream."""
_REMEMBERED_RESETS = 256
_pack_header = frames.HEADER.pack


class UnsentAccount(Protocol):
    """Counts what waits to be sent, for all connections together."""

    def add(self, size: int) -> None:
        """So many octets more, or fewer."""


class NoAccount:
    def add(self, size: int) -> None:
        """Ignored: there is no account."""


class SendQueue:
    """What may be sent, in which order."""

    def __init__(self, unsent: UnsentAccount) -> None:
        self._unsent = unsent
        self.out: list[bytes | memoryview] = []
        self.events: list[Event] = []
        self.streams: dict[int, StreamState] = {}
        self.window = DEFAULT_WINDOW
        self.room = 0
        """Octets of bodies that may still go to `out` in this turn."""
        self.pending_total = 0
        self.ready: dict[StreamState, None] = {}
        """Streams that could send if the connection's window and the room allowed."""
        self.peer_max_frame = MIN_MAX_FRAME
        self._reset_ids: dict[int, None] = {}
        self._owes_table_update = False

    # -- whole answers -------------------------------------------------------------------------

    def send_answer(self, stream: StreamState, block: bytes, body: bytes) -> bool:
        """Headers and a whole body; True if all of it went to `out` and the stream is over."""
        size = len(body)
        if (
            0 < size <= stream.window
            and size <= self.window
            and size <= self.room
            and size <= self.peer_max_frame
            and len(block) <= self.peer_max_frame
            and not self._owes_table_update
        ):
            stream.window -= size
            self.window -= size
            self.room -= size
            self.out += (
                _pack_header(len(block) << 8 | HEADERS, END_HEADERS, stream.id),
                block,
                _pack_header(size << 8, END_STREAM, stream.id),
                body,
            )
            self._close_local(stream)
            return True
        self.send_headers(stream, block, ends=not size)
        return not size or self.send_parts(stream, (body,), size, ends=True)

    def send_headers(self, stream: StreamState, block: bytes, ends: bool = False) -> None:
        # RFC 7541, 4.2: a smaller table must be announced at the start of the next header block.
        if self._owes_table_update:
            self._owes_table_update = False
            block = HeaderEncoder.TABLE_SIZE_ZERO + block
        size = len(block)
        flags = END_STREAM if ends else 0
        if size <= self.peer_max_frame:
            self.out += (
                _pack_header(size << 8 | HEADERS, flags | END_HEADERS, stream.id),
                block,
            )
        else:
            self._send_long_block(stream.id, flags, block)
        if ends:
            self._close_local(stream)

    def _send_long_block(self, stream_id: int, flags: int, block: bytes) -> None:
        step = self.peer_max_frame
        kind = HEADERS
        for start in range(0, len(block), step):
            if start + step >= len(block):
                flags |= END_HEADERS
            self.out.append(frames.frame(kind, flags, stream_id, block[start : start + step]))
            kind, flags = CONTINUATION, 0

    # -- pieces --------------------------------------------------------------------------------

    def send(self, stream: StreamState, data: bytes) -> None:
        """One piece of an answer: at once if it fits, else it waits its turn."""
        size = len(data)
        if (
            size <= stream.window
            and size <= self.window
            and size <= self.room
            and size <= self.peer_max_frame
            and not stream.pending_size  # data that waits must be sent first
            and stream.is_local_open
        ):
            stream.window -= size
            self.window -= size
            self.room -= size
            self.out += (_pack_header(size << 8, 0, stream.id), data)
        elif size:
            self.send_parts(stream, (data,), size)

    def send_to_all(self, streams: Sequence[StreamState], data: bytes) -> int:
        """`send` for many streams, written out: a watch event goes to hundreds of them.

        How much waits on the stream on which most waits.
        """
        size = len(data)
        room = before = min(self.window, self.room) if size <= self.peer_max_frame else 0
        prefix = _pack_header(size << 8, 0, 0)[:5]
        sent: list[bytes] = []
        waiting = []
        for stream in streams:
            if (
                size <= room
                and size <= stream.window
                and not stream.pending_size
                and stream.is_local_open
            ):
                stream.window -= size
                room -= size
                sent.append(stream.octets)
            else:
                waiting.append(stream)
        if sent:  # frames that differ only in the stream: one join instead of three parts for each
            sent[0] = prefix + sent[0]
            sent[-1] += data
            self.out.append((data + prefix).join(sent))
        self.window -= before - room
        self.room -= before - room
        return self._hold_back(waiting, data) if waiting else 0

    def _hold_back(self, streams: Sequence[StreamState], data: bytes) -> int:
        """Let the same piece wait on many streams; how much waits on the fullest."""
        size, most, count = len(data), 0, 0
        ready = self.ready
        for stream in streams:
            if not stream.is_local_open:
                continue
            if stream.pending is None:
                stream.pending = deque()
            stream.pending.append(data)
            stream.pending_size = total = stream.pending_size + size
            most = max(most, total)
            if stream.window > 0:
                ready[stream] = None
            count += 1
        self.pending_total += count * size
        self._unsent.add(count * size)
        return most

    def send_parts(
        self, stream: StreamState, parts: Sequence[bytes], size: int, ends: bool = False
    ) -> bool:
        """Let pieces wait their turn, then pump; True if the stream is over."""
        if not stream.is_local_open:
            return True
        if stream.pending is None:
            stream.pending = deque()
        stream.pending.extend(parts)
        stream.pending_size += size
        stream.ends = ends
        self.pending_total += size
        self._unsent.add(size)
        if stream.window > 0:
            self.ready[stream] = None
        return False

    def end(self, stream: StreamState, trailers: bytes = b"") -> bool:
        """No more pieces; True if all has been sent. `trailers`: a header block, if any."""
        if not stream.is_local_open:
            return True
        if stream.pending_size:
            stream.ends = True
            stream.trailers = trailers
            return False
        if trailers:
            self.send_headers(stream, trailers, ends=True)
            return True
        self.out.append(_pack_header(0, END_STREAM, stream.id))
        self._close_local(stream)
        return True

    def pump(self) -> None:
        """Send what waits, a frame of each ready stream in turn, while windows and room last."""
        ready = self.ready
        while ready and self.room > 0 and self.window > 0:
            stream = next(iter(ready))
            del ready[stream]
            self._send_frame(stream)
            if stream.pending_size and stream.window > 0:
                ready[stream] = None  # to the end of the line, so that streams take turns

    def _send_frame(self, stream: StreamState) -> None:
        size = min(stream.pending_size, stream.window, self.window, self.peer_max_frame)
        stream.window -= size
        self.window -= size
        self.room -= size
        self.pending_total -= size
        stream.pending_size -= size
        stream.moved += size
        self._unsent.add(-size)
        is_last = stream.ends and not stream.pending_size
        flags = END_STREAM if is_last and not stream.trailers else 0
        self.out.append(_pack_header(size << 8 | DATA, flags, stream.id))
        self._take(stream, size)
        if is_last:
            self.events.append(StreamEnded(stream))
            if stream.trailers:
                self.send_headers(stream, stream.trailers, ends=True)
            else:
                self._close_local(stream)
        elif stream.pending_size <= stream.relief_at:
            stream.relief_at = -1
            self.events.append(Relieved(stream))

    def _take(self, stream: StreamState, size: int) -> None:
        pending = stream.pending
        assert pending is not None
        out = self.out
        while size:
            part = pending.popleft()
            length = len(part)
            if length > size:
                # A view: slicing bytes would copy the rest of a long list for every frame of it.
                view = memoryview(part)
                pending.appendleft(view[size:])
                out.append(view[:size])
                return
            out.append(part)
            size -= length

    def widen(self, stream: StreamState, increment: int) -> None:
        """The client will take more of a stream (or less: the increment may be negative)."""
        stream.window += increment
        if stream.pending_size:
            if stream.window > 0:
                self.ready[stream] = None
            else:
                self.ready.pop(stream, None)

    # -- ends ----------------------------------------------------------------------------------

    def reset(self, stream: StreamState, code: int) -> None:
        """Break a stream off."""
        if self.streams.get(stream.id) is stream:
            self._send_reset(stream.id, code)
            self.forget(stream)

    def _send_reset(self, stream_id: int, code: int) -> None:
        self.out.append(frames.reset(stream_id, code))
        # What the client sent before it hears of this is to be ignored, not held against it.
        self._reset_ids[stream_id] = None
        if len(self._reset_ids) > _REMEMBERED_RESETS:
            del self._reset_ids[next(iter(self._reset_ids))]

    def _close_local(self, stream: StreamState) -> None:
        stream.is_local_open = False
        if stream.is_remote_open:
            # The answer is complete; whatever the client still wants to send is of no use.
            self._send_reset(stream.id, NO_ERROR)
        self.forget(stream)

    def forget(self, stream: StreamState) -> None:
        """Take a stream out of everything."""
        stream.is_local_open = stream.is_remote_open = False
        self.streams.pop(stream.id, None)
        if stream.pending is not None:
            self.pending_total -= stream.pending_size
            self._unsent.add(-stream.pending_size)
            stream.pending_size = 0
            stream.pending = None
            self.ready.pop(stream, None)
