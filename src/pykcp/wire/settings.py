"""Settings of a listener, with safe defaults.

Timeouts, header size and streams have kube-apiserver's values where it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Limits of a listener and of each of its connections."""

    max_header_list_size: int = 1 * _MIB
    """Octets of a request's header fields together, 32 added for each; more gets 431."""

    max_path: int = 64 * _KIB
    """Octets of a request's path, without its query; more gets 414."""

    max_concurrent_streams: int = 1000
    """Requests in progress on one HTTP/2 connection, watches included.

    Go's clients open another connection when they hit it.  A plain kube-apiserver allows 250;
    servers that stand behind a proxy, which puts many users' watches on one connection, allow 1000.
    """

    max_body: int = 3 * _MIB + 64 * _KIB
    """Octets of a request body that are kept; a longer one is handed over as `truncated`."""

    max_buffered_per_connection: int = 64 * _MIB
    """Octets of unfinished request bodies, and of answers that the client does not take.

    Further requests on that connection are refused (they may be tried again).
    """

    max_buffered_bodies: int = 128 * _MIB
    """Octets of unfinished request bodies on all connections of the listener together."""

    max_header_fields: int = 4096
    """Fields of a request's head; more get 431."""

    max_buffered_per_address: int = 64 * _MIB
    """Octets of unfinished request bodies from one address."""

    max_buffered_unknown: int = 32 * _MIB
    """Octets of unfinished request bodies of all callers who have not signed in (yet)."""

    max_unknown_body: int = 64 * _KIB
    """Octets of a body that are kept of a caller who has not signed in."""

    max_unsent: int = 128 * _MIB
    """Octets of answers that wait for all clients together.

    Above half of it long answers pause; above all of it the clients for whom most waits lose it.
    """

    max_connections: int = 10_000
    """Open connections; to admit one more the longest idle one is closed."""

    max_connections_per_address: int = 2_000
    """Open connections of one address; further ones are closed at once."""

    max_handshakes: int = 2_000
    """Connections whose handshake is under way; further ones are closed at once."""

    max_handshakes_per_address: int = 500
    """The same for one address; its further connections wait, unread, until one of them is over."""

    stream_window: int = 256 * _KIB
    """HTTP/2: what a client may send on a stream before we have taken it, if it has signed in.

    Until that is known, `max_unknown_body`.
    """

    connection_window: int = 1 * _MIB
    """HTTP/2: the same for all streams of a connection."""

    max_frame: int = 16 * _KIB
    """HTTP/2: largest frame accepted."""

    handshake_timeout: float = 10.0
    """Seconds for the TLS handshake. The wait until it may begin takes twice as long at most."""

    header_timeout: float = 32.0
    """Seconds from the first octet of a request's head to its last."""

    body_timeout: float = 60.0
    """Seconds from the head of a request to the end of its body, if the body is buffered."""

    min_body_rate: float = 1.0 * _KIB
    """Octets a second that a client has to send of a body, averaged, after `body_grace`."""

    body_grace: float = 10.0
    """Seconds in which a body may be as slow as it likes."""

    idle_timeout: float = 90.0
    """Seconds that a connection may have nothing to do."""

    write_stall_timeout: float = 30.0
    """Seconds that a client may take too little of what is waiting for it."""

    min_read_rate: float = 4.0 * _KIB
    """Octets a second that a client has to take of an answer that waits for it."""

    low_water: int = 32 * _KIB
    """`Stream.drain` waits until no more than this is waiting."""

    socket_buffer: int = 128 * _KIB
    """Octets that may wait in the event loop for a socket before streams keep theirs back."""

    turn_size: int = 256 * _KIB
    """Octets of bodies encrypted and written at a go; then other connections have their turn."""

    reset_burst: int = 1000
    """HTTP/2: streams that a client may break off at once (rapid reset)."""

    reset_rate: float = 50.0
    """HTTP/2: streams that a client may break off per second in the long run."""

    idle_frame_burst: int = 10_000
    """HTTP/2: frames that bring nothing forward (PING, SETTINGS, PRIORITY, empty ones) at once."""

    idle_frame_rate: float = 500.0
    """HTTP/2: such frames per second in the long run."""

    max_continuations: int = 128
    """HTTP/2: CONTINUATION frames of one header block."""

    max_websocket_message: int = 4 * _MIB
    """Octets of one message that a WebSocket client sends."""

    id_header: str = "audit-id"
    """The header with the id of an answer; a request may bring its own."""

    @property
    def first_window(self) -> int:
        """HTTP/2: what any client may send on a stream."""
        return min(self.stream_window, self.max_unknown_body)

    def problems(self) -> Iterator[str]:
        """All that is wrong with these values, one sentence each."""
        for name in self.__dataclass_fields__:
            if name != "id_header" and getattr(self, name) <= 0:
                yield f"{name} must be positive"
        if not 16384 <= self.max_frame < 2**24:
            yield "max_frame must be between 16384 and 16777215"
        if not 65535 <= self.connection_window < 2**31:
            yield "connection_window must be between 65535 and 2147483647"
        if self.stream_window >= 2**31:
            yield "stream_window must be at most 2147483647"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Limits of connections that are opened to other servers, which may be hostile."""

    max_header_list_size: int = 1 * _MIB
    """Octets of an answer's header fields together, 32 added for each."""

    max_header_fields: int = 1024
    """Fields of an answer's head."""

    max_continuations: int = 64
    """HTTP/2: CONTINUATION frames of one header block."""

    max_frame: int = 64 * _KIB
    """HTTP/2: largest frame accepted. The work for a frame is the same whatever its size."""

    first_window: int = 256 * _KIB
    """Octets of an answer that may come before they are consumed."""

    connection_window: int = 1 * _MIB
    """HTTP/2: the same for all streams of a connection, refilled as data arrives."""

    max_streams: int = 1000
    """HTTP/2: requests on one connection, if the server allows as many."""

    max_connections: int = 512
    """Connections to one server."""

    idle_frame_burst: int = 10_000
    """HTTP/2: frames that bring nothing forward (PING, SETTINGS, empty ones) at once."""

    idle_frame_rate: float = 500.0
    """HTTP/2: such frames per second in the long run."""

    reset_burst: int = 1000
    reset_rate: float = 50.0

    connect_timeout: float = 30.0
    """Seconds for TCP and TLS together, for all addresses of the server."""

    idle_timeout: float = 90.0
    """Seconds that a connection is kept without a request."""

    ping_after: float = 30.0
    """HTTP/2: seconds without a frame, while answers are awaited, before a PING is sent."""

    ping_timeout: float = 15.0
    """HTTP/2: seconds that the server has to send something after that."""

    low_water: int = 32 * _KIB
    """A request body goes on when no more than this of it waits."""

    socket_buffer: int = 128 * _KIB
    """Octets that may wait in the event loop for a socket before bodies are kept back."""

    turn_size: int = 256 * _KIB
    """Octets of bodies encrypted and written at a go."""


WITHIN_INSTALLATION = ClientSettings(connect_timeout=4.0, ping_after=3.0, ping_timeout=4.0)
"""Between the programs of one installation: a connection on which nothing arrives any more is given
up after some eight seconds. What lies between two machines may forget connections without a word.
"""


@dataclass(frozen=True, slots=True)
class NamedCertificate:
    """A certificate for the host names that clients ask for (SNI)."""

    cert_file: str
    """PEM with the certificate and its intermediates."""

    key_file: str
    """PEM with its private key."""

    names: tuple[str, ...]
    """In lower case; `*.` at the beginning stands for one label, `*` for every name."""

    def matches(self, host: str) -> bool:
        """Whether it is for this host name, which is in lower case."""
        return any(
            name in (host, "*")
            or (name.startswith("*.") and host.partition(".")[2] == name[2:] != "")
            for name in self.names
        )


@dataclass(frozen=True, slots=True)
class TLSSettings:
    """Whose certificate to show and whether to ask for the client's."""

    cert_file: str
    """PEM with the serving certificate and its intermediates."""

    key_file: str
    """PEM with its private key."""

    request_client_certificate: bool = True
    """Ask every client for a certificate; none is required and none is judged here.

    The application reads it as `Peer.certificate` and answers 401 if it does not trust it.
    """

    client_ca_file: str | None = None
    """Used only if the TLS library cannot leave the verification to the application.

    Then the handshake of a client fails if its certificate was not issued by this bundle.
    """

    reload_interval: float = 10.0
    """Seconds after which a new connection makes the listener look whether the files changed."""

    min_version: str = "1.2"
    """Lowest version of TLS to accept: 1.2 or 1.3."""

    ciphers: tuple[str, ...] = ()
    """Cipher suites for TLS 1.2, by OpenSSL's names; empty for those allowed by HTTP/2."""

    named: tuple[NamedCertificate, ...] = ()
    """Certificates for certain host names, shown instead of the first one."""
