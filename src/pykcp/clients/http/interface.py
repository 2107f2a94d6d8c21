"""What the parts of the HTTP client say to each other, and to callers that want no task.

A caller that can live with callbacks starts a request on a `ClientSession` with an `AnswerHandler`;
`client.HttpClient.request` is the same for callers that would rather await.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.trust import Trust
from pykcp.wire.exchange import Header
from pykcp.wire.http2.known_answers import PassedHeaders


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, and how it proves that it is the one."""

    scheme: str
    """`https` or `http`."""
    host: str
    port: int
    trust: Trust | None = None
    """None: plain text."""
    server_name: str = ""
    """The name in its certificate, if it is another than `host`."""
    addresses: tuple[str, ...] = ()
    """The IP addresses to connect to, if the name shall not be looked up (again)."""
    connect: Callable[[], socket.socket] | None = None
    """Makes a connected Unix socket to a process of this machine, in place of an address.
    HTTP/2 is spoken there without TLS."""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return host if is_default else f"{host}:{self.port}"


class OutgoingRequest(NamedTuple):
    """One request. Header names are lower case; those of one hop are added or left out here."""

    method: str
    target: str
    """Path and query, percent-encoded."""
    headers: Sequence[Header] = ()
    body: bytes | None = b""
    """None: it is sent with `write` and `end`."""
    length: int | None = None
    """Of a body that is sent later, if it is known."""
    upgrade: str = ""
    """The protocol to switch to (HTTP/1.1 only): after status 101 octets flow both ways."""


class AnswerHandler(Protocol):
    """Callbacks for the progress of a request; `ended` or `failed` is the last call."""

    def head_received(self, status: int, headers: Sequence[Header]) -> None: ...

    def data_received(self, data: bytes) -> None:
        """A piece of the answer: say `consumed` when it is, so that more may come."""

    def ended(self, trailers: Sequence[Header]) -> None: ...

    def failed(self, error: SendFailed) -> None: ...

    def relieved(self) -> None:
        """Nearly all of the body that was written has gone out."""


class OutgoingStream(Protocol):
    """A request under way."""

    @property
    def is_received(self) -> bool:
        """Whether the whole answer is here, though its handler may not have been told yet."""

    @property
    def backlog(self) -> int:
        """Octets of the body that wait to be sent."""

    def write(self, data: bytes) -> None: ...

    def end(self) -> None:
        """The body is complete."""

    def consumed(self, size: int) -> None: ...

    def cancel(self) -> None:
        """The answer is not wanted any more; no further call comes."""


class ClientSession(Protocol):
    """One connection to a server."""

    is_reused: bool
    """It has carried a request before."""

    @property
    def has_room(self) -> bool:
        """Whether it can carry another request now."""

    def start(self, request: OutgoingRequest, handler: AnswerHandler) -> OutgoingStream:
        """Send a request. Raises ValueError for one that HTTP cannot carry."""


_TARGET = re.compile(r"[!-~]+").fullmatch


def check_target(request: OutgoingRequest) -> None:
    """Raises ValueError: a blank or a line's end would make another request of it."""
    if _TARGET(request.target) is None or not request.method.isalpha():
        raise ValueError("request line cannot be sent")


HOP_BY_HOP = frozenset(
    (
        "connection", "proxy-connection", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
"""Headers that concern one connection only."""


def end_to_end(
    headers: Sequence[Header], without: frozenset[str] = frozenset()
) -> Sequence[Header]:
    """Headers but those of one hop: the usual ones, those that `connection` names, and more."""
    if type(headers) is PassedHeaders and not without:
        return headers
    dropped = HOP_BY_HOP | without if without else HOP_BY_HOP
    if dropped.isdisjoint([header[0] for header in headers]):
        return headers  # as nearly always over HTTP/2
    named = [value for name, value in headers if name == "connection"]
    if named:
        dropped |= {one.strip().lower() for one in ",".join(named).split(",")}
    return [header for header in headers if header[0] not in dropped]
