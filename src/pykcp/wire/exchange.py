"""What the rest of the server sees of HTTP: requests, responses and streams.

The wire calls `Application.handle` once per request. Small answers are given
synchronously and cost no task; a handler that must wait returns a coroutine,
which the connection runs as a task of its own and cancels when the client goes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol

Header = tuple[str, str]
"""A header field; names are lower case, values are latin-1 text."""


class PeerInfo(Protocol):
    """The connection a request came over."""

    protocol: str
    """`HTTP/1.1` or `HTTP/2.0`."""
    address: str
    """The client's IP address."""
    port: int
    certificate: bytes | None
    """DER of the client's certificate if it showed one (chain not judged here)."""
    intermediates: tuple[bytes, ...]
    """DER of the certificates that the client sent along with its own."""
    owner: str
    """Connections of the same owner take turns with those of others. At first the address; the
    application names another owner when it knows who sends the requests."""
    memo: dict[str, Any]
    """What the application wants to remember for the life of the connection."""


class IncomingRequest(Protocol):
    method: str
    path: str
    """Still percent-encoded, without the query."""
    query: str
    """Without the question mark."""
    headers: Sequence[Header]

    @property
    def peer(self) -> PeerInfo: ...

    body: bytes
    """The whole body; empty while `is_streaming`."""
    truncated: bool
    """The body was longer than the limit; the rest is thrown away and the answer should be 413."""
    is_streaming: bool

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""

    def header_all(self, name: str) -> list[str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, if `is_streaming`."""

    def pipe(self, sink: BodySink) -> BodySource:
        """The same without a task: hand the body to a sink as it arrives, if `is_streaming`."""


class Stream(Protocol):
    """An answer that is written piece by piece: a watch, a proxied body, a WebSocket."""

    closed: bool

    @property
    def backlog(self) -> int:
        """Bytes accepted but not yet handed to the socket (flow control, slow reader)."""

    def write(self, data: bytes) -> None:
        """Queue bytes; never blocks. All that one turn of the loop queues is one write.

        On a WebSocket each call is one message. What is written after the end is thrown away.
        """

    async def drain(self) -> None:
        """Wait until the backlog is below the low-water mark. Raises ConnectionError if gone."""

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call once when the backlog is below the low-water mark or the stream is over."""

    def end(self, trailers: Sequence[Header] = ()) -> None:
        """Finish cleanly. Trailers are left out where HTTP/1.1 has no place for them."""

    def abort(self) -> None:
        """Break the stream off so that the client cannot take it for complete."""

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call once when the stream has ended, on either side; immediately if it already has."""


class WebSocket(Stream, Protocol):
    subprotocol: str

    def write_text(self, text: str) -> None: ...

    def messages(self) -> AsyncIterator[bytes | str]:
        """What the client sends, until it closes."""


class BodySink(Protocol):
    """Takes what a client sends, piece by piece."""

    def write(self, data: bytes) -> None:
        """A piece; say `consumed` when it is, so that more may come."""

    def end(self) -> None:
        """There is no more."""

    def fail(self, error: Exception) -> None:
        """The client broke off."""


class BodySource(Protocol):
    """Where a sink's pieces come from."""

    def consumed(self, size: int) -> None: ...


class Tunnel(Stream, BodySource, Protocol):
    """A connection on which another protocol is spoken: octets both ways."""


class Exchange(Protocol):
    responded: bool

    @property
    def request(self) -> IncomingRequest: ...

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        """The whole answer; content-length and date are added. HEAD answers lose their body.

        The header `connection: close` ends the connection after what is in progress (GOAWAY).
        """

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        """Begin an answer of unknown length, or of the length that its headers announce."""

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        """Accept the client's upgrade."""

    def wants_websocket(self) -> bool: ...

    @property
    def wanted_protocol(self) -> str:
        """The protocol that the client asks to switch to (HTTP/1.1's `Upgrade`), or ""."""

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        """Switch to it: answer 101 with these headers, and hand the client's octets to the sink."""

    def defer(self, gone: Callable[[], None]) -> None:
        """The answer will come without a coroutine; `gone` is called if the client goes before."""

    def proceed(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Go on with a deferred answer as a coroutine after all."""

    @property
    def unsent(self) -> int:
        """Octets of the answer that wait for the client to take them."""

    async def taken(self) -> None:
        """Wait until the client has taken nearly all that was written, or is gone."""

    async def reserve(self, size: int) -> None:
        """Wait for room for a piece of a long answer, among all that wait to be sent."""

    def unreserve(self, size: int) -> None:
        """The piece is written, or there is none."""


class Application(Protocol):
    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        """Answer one request. Whatever escapes is logged and answered with a plain 500."""

    def wants_streaming(self, request: IncomingRequest) -> bool:
        """Whether to call `handle` before the body has arrived (proxying)."""

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        """Whether the caller has signed in: asked before a long body is kept.

        Of a stranger only the beginning is; the request is then handed over as `truncated`.
        """
