"""Connection-level frames of the HTTP/2 state machine: SETTINGS, PING, GOAWAY, WINDOW_UPDATE.

See `http2` for the whole.  Here are the frames that carry no request: windows,
settings, pings, priorities, resets and farewells, and the limits on how many of
those a client may send.
"""

from __future__ import annotations

from typing import Protocol

from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import ConnectionFailed, StreamLost
from pykcp.wire.http2.frames import (
    ACK,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    MAX_STREAM_ID,
    MAX_WINDOW,
    NO_ERROR,
    PING,
    PROTOCOL_ERROR,
    SETTINGS,
    ConnectionFault,
    StreamFault,
)
from pykcp.wire.http2.hpack import DEFAULT_TABLE_SIZE
from pykcp.wire.http2.sending import LARGEST_FRAME_SENT, NoAccount, SendQueue, UnsentAccount
from pykcp.wire.rate import Bucket

_SETTINGS_ACK = frames.frame(SETTINGS, ACK, 0)
SMALL_INCREMENT = 256
"""A client that gives back each event's octets one by one stays above this."""


class Limits(Protocol):
    """The settings of either side: `WireSettings`, `ClientSettings`."""

    @property
    def max_header_list_size(self) -> int: ...
    @property
    def max_header_fields(self) -> int: ...
    @property
    def max_continuations(self) -> int: ...
    @property
    def max_frame(self) -> int: ...
    @property
    def first_window(self) -> int: ...
    @property
    def connection_window(self) -> int: ...
    @property
    def reset_burst(self) -> int: ...
    @property
    def reset_rate(self) -> float: ...
    @property
    def idle_frame_burst(self) -> int: ...
    @property
    def idle_frame_rate(self) -> float: ...


class Control(SendQueue):
    """Everything but messages and their bodies."""

    def __init__(self, settings: Limits, now: float, unsent: UnsentAccount | None = None) -> None:
        super().__init__(unsent or NoAccount())
        self._settings = settings
        self._now = now
        self._resets = Bucket(settings.reset_burst, settings.reset_rate)
        self._idle_frames = Bucket(settings.idle_frame_burst, settings.idle_frame_rate)
        self._initial_window = frames.DEFAULT_WINDOW
        self._drain_ping = b""
        self.last_id = 0
        """The highest stream that the client (whichever side that is) opened."""
        self.is_going_away = False
        """No stream is accepted any more."""
        self.is_failed = False
        self.out.append(self._greeting())

    def _greeting(self) -> bytes:
        settings = self._settings
        return frames.settings(
            {
                **self._announced(),
                frames.SETTINGS_INITIAL_WINDOW_SIZE: settings.first_window,
                frames.SETTINGS_MAX_FRAME_SIZE: settings.max_frame,
                frames.SETTINGS_MAX_HEADER_LIST_SIZE: settings.max_header_list_size,
            }
        ) + frames.window_update(0, settings.connection_window - frames.DEFAULT_WINDOW)

    def _announced(self) -> dict[int, int]:
        """The settings that only one side sends."""
        raise NotImplementedError

    def _count_idle_frame(self, cost: int = 1) -> None:
        if not self._idle_frames.take(self._now, cost):
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames to no purpose")

    # -- windows and settings ------------------------------------------------------------------

    def _on_window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad WINDOW_UPDATE")
        self._on_increment(stream_id, frames.U32.unpack(payload)[0] & MAX_WINDOW)

    def _on_increment(self, stream_id: int, increment: int) -> None:
        """The client will take more on a stream, or on the connection (0)."""
        stream = None
        if not stream_id:
            self.window += increment
            if not increment or self.window > MAX_WINDOW:
                code = FLOW_CONTROL_ERROR if increment else PROTOCOL_ERROR
                raise ConnectionFault(code, "bad window increment")
        else:
            stream = self.streams.get(stream_id)
            if stream is None:
                self._check_not_idle(stream_id)
            elif not increment:
                raise StreamFault(stream_id, PROTOCOL_ERROR, "window increment of zero")
            elif stream.window + increment > MAX_WINDOW:
                raise StreamFault(stream_id, FLOW_CONTROL_ERROR, "window too large")
        if increment < SMALL_INCREMENT:
            # Windows opened a few octets at a time make us send as many frames.
            self._count_idle_frame()
        if stream is not None:
            self.widen(stream, increment)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & ACK:
            if payload:
                raise ConnectionFault(FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload")
            return
        if len(payload) % 6:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad SETTINGS")
        self._count_idle_frame(1 + len(payload) // 6)
        for setting, value in frames.SETTING.iter_unpack(payload):
            self._on_setting(setting, value)
        self.out.append(_SETTINGS_ACK)

    def _on_setting(self, setting: int, value: int) -> None:
        if setting == frames.SETTINGS_INITIAL_WINDOW_SIZE:
            if value > MAX_WINDOW:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "initial window too large")
            self._change_initial_window(value)
        elif setting == frames.SETTINGS_MAX_FRAME_SIZE:
            if not frames.MIN_MAX_FRAME <= value <= frames.MAX_MAX_FRAME:
                raise ConnectionFault(PROTOCOL_ERROR, "bad frame size")
            self.peer_max_frame = min(value, LARGEST_FRAME_SENT)
        elif setting == frames.SETTINGS_HEADER_TABLE_SIZE:
            if value < DEFAULT_TABLE_SIZE:
                self._owes_table_update = True
        elif setting == frames.SETTINGS_ENABLE_PUSH and value > 1:
            raise ConnectionFault(PROTOCOL_ERROR, "bad ENABLE_PUSH")

    def _change_initial_window(self, value: int) -> None:
        difference = value - self._initial_window
        self._initial_window = value
        if not difference:
            return
        self._count_idle_frame(1 + len(self.streams) // 16)
        for stream in self.streams.values():
            if stream.window + difference > MAX_WINDOW:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "window too large")
            self.widen(stream, difference)

    # -- pings, priorities, resets -------------------------------------------------------------

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad PING")
        self._count_idle_frame()
        if not flags & ACK:
            self.out.append(frames.frame(PING, ACK, 0, payload))
        elif payload == self._drain_ping:
            self.refuse_new_streams()

    def _on_priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "PRIORITY on the connection")
        self._count_idle_frame()
        if len(payload) != 5:
            raise StreamFault(stream_id, FRAME_SIZE_ERROR, "bad PRIORITY")
        check_priority(stream_id, payload)

    def _on_reset(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad RST_STREAM")
        self._check_not_idle(stream_id)
        self._count_reset()
        stream = self.streams.get(stream_id)
        if stream is not None:
            self.forget(stream)
            self.events.append(StreamLost(stream, frames.U32.unpack(payload)[0]))

    def _count_reset(self) -> None:
        if not self._resets.take(self._now):
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many streams broken off")

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ConnectionFault(PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "bad GOAWAY")
        self._count_idle_frame()
        self.refuse_new_streams()

    def _check_not_idle(self, stream_id: int) -> None:
        if not stream_id & 1 or (stream_id > self.last_id and not self.is_going_away):
            raise ConnectionFault(PROTOCOL_ERROR, "frame on an idle stream")

    # -- ends ----------------------------------------------------------------------------------

    def announce_drain(self, ping: bytes = b"goodbye!") -> None:
        """First half of a graceful end: say so, still take what is on its way.

        The client's answer to the PING proves that it has heard; then, or when the caller has
        waited long enough, comes `refuse_new_streams`.
        """
        if not self.is_going_away and not self._drain_ping:
            self._drain_ping = ping
            self.out.append(frames.goaway(MAX_STREAM_ID, NO_ERROR))
            self.out.append(frames.frame(PING, 0, 0, ping))

    def refuse_new_streams(self) -> None:
        """Second half: name the last stream that will be answered."""
        if not self.is_going_away:
            self.is_going_away = True
            self.out.append(frames.goaway(self._last_answered, NO_ERROR))

    @property
    def _last_answered(self) -> int:
        """The highest stream of the other side that was worked on."""
        return self.last_id

    @property
    def is_finished(self) -> bool:
        """Nothing more will happen on this connection."""
        return self.is_failed or (self.is_going_away and not self.streams)

    def fail(self, code: int, reason: str) -> None:
        """End the connection and every stream on it."""
        if self.is_failed:
            return
        self.is_failed = True
        self.out.append(frames.goaway(self._last_answered, code, reason))
        for stream in [*self.streams.values()]:
            self.forget(stream)
            self.events.append(StreamLost(stream, code))
        self.events.append(ConnectionFailed(code, reason))

    def _fail_stream(self, fault: StreamFault) -> None:
        stream = self.streams.get(fault.stream_id)
        self._send_reset(fault.stream_id, fault.code)
        self._count_idle_frame()
        if stream is not None:
            self.forget(stream)
            self.events.append(StreamLost(stream, fault.code))


def check_priority(stream_id: int, payload: bytes) -> None:
    """Priorities are ignored, but a stream may not depend on itself."""
    if len(payload) < 5:
        raise ConnectionFault(FRAME_SIZE_ERROR, "priority cut short")
    if frames.U32.unpack_from(payload)[0] & MAX_STREAM_ID == stream_id:
        # No stream fault: the header block behind it would never reach the decoder.
        raise ConnectionFault(PROTOCOL_ERROR, "stream depends on itself")
