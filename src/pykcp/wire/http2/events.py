"""What the HTTP/2 state machine reports, and the state of a stream that most of it is about."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from pykcp.wire.heads import Head, ResponseHead
from pykcp.wire.http2.hpack import Field
from pykcp.wire.rate import Progress


class StreamState:
    """One stream as the state machine sees it."""

    __slots__ = (
        "consumed",
        "ends",
        "expected",
        "has_small_data",
        "id",
        "is_local_open",
        "is_remote_open",
        "moved",
        "moved_before",
        "octets",
        "owner",
        "pending",
        "pending_size",
        "progress",
        "receive_limit",
        "receive_window",
        "relief_at",
        "trailers",
        "window",
    )

    def __init__(self, stream_id: int, window: int, receive_window: int) -> None:
        self.id = stream_id
        self.octets = stream_id.to_bytes(4, "big")
        """Its number as frames have it."""
        self.window = window
        self.receive_window = self.receive_limit = receive_window
        self.consumed = 0
        self.expected: int | None = None
        """Octets still missing to the announced content-length."""
        self.has_small_data = False
        """A frame with next to no data has come that did not end it."""
        self.is_remote_open = True
        self.is_local_open = True
        self.pending: deque[bytes | memoryview] | None = None
        self.pending_size = 0
        self.ends = False
        """The stream ends when `pending` is sent."""
        self.trailers = b""
        """A header block that is sent behind `pending`."""
        self.moved = 0
        """Octets that had to wait and went out."""
        self.moved_before = -1
        """For the caller: how many that were when it last looked."""
        self.progress: Progress | None = None
        """For the caller: how fast they do."""
        self.relief_at = -1
        """Report with a `Relieved` event when no more than this is pending (-1: never)."""
        self.owner: Any = None
        """For the caller: what this stream belongs to."""

    @property
    def is_closed(self) -> bool:
        """Nothing can be sent any more."""
        return not self.is_local_open


class ClientStream(StreamState):
    """One stream as the client's state machine sees it."""

    __slots__ = ("has_head", "is_head_request", "received_trailers")

    def __init__(
        self, stream_id: int, window: int, receive_window: int, is_head_request: bool
    ) -> None:
        super().__init__(stream_id, window, receive_window)
        self.is_head_request = is_head_request
        """The answer has no body, whatever length it announces."""
        self.has_head = False
        """The final head of the answer has come."""
        self.expected = 0  # nothing may come before the head
        self.received_trailers: list[Field] = []


class ResponseReceived:
    """An answer's final head; its body follows as `BodyReceived` unless `is_complete`."""

    __slots__ = ("head", "is_complete", "stream")

    def __init__(self, stream: ClientStream, head: ResponseHead, is_complete: bool) -> None:
        self.stream = stream
        self.head = head
        self.is_complete = is_complete


class RequestReceived:
    """A request's head; its body follows as `BodyReceived` unless `is_complete`."""

    __slots__ = ("head", "is_complete", "stream")

    def __init__(self, stream: StreamState, head: Head | None, is_complete: bool) -> None:
        self.stream = stream
        self.head = head
        """None if the header list was too large: answer 431."""
        self.is_complete = is_complete


class BodyReceived:
    """A piece of the body of a message."""

    __slots__ = ("data", "is_last", "stream")

    def __init__(self, stream: StreamState, data: bytes, is_last: bool) -> None:
        self.stream = stream
        self.data = data
        self.is_last = is_last


class StreamLost:
    """The stream is over without the answer having been completed."""

    __slots__ = ("code", "stream")

    def __init__(self, stream: StreamState, code: int) -> None:
        self.stream = stream
        self.code = code


class ConnectionFailed:
    """The client broke the protocol; send what is in `out` and close."""

    __slots__ = ("code", "reason")

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        self.reason = reason


class StreamEnded:
    """The answer has gone out to its end after having had to wait."""

    __slots__ = ("stream",)

    def __init__(self, stream: StreamState) -> None:
        self.stream = stream


class Relieved:
    """A stream's waiting octets have fallen to its `relief_at`."""

    __slots__ = ("stream",)

    def __init__(self, stream: StreamState) -> None:
        self.stream = stream


Event: TypeAlias = (
    RequestReceived
    | ResponseReceived
    | BodyReceived
    | StreamLost
    | StreamEnded
    | Relieved
    | ConnectionFailed
)
