"""Limits of connections; what they protect is in docs/operate/limits.md."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.options import Mapped, MappedGroup
from pykcp.wire.settings import WireSettings


class ConnectionOptions(MappedGroup):
    TITLE = "Connections"
    TABLE = (
        Mapped("http2-max-streams-per-connection", "wire.max_concurrent_streams",
               f"Requests in progress on one HTTP/2 connection, watches included; 0 is {WireSettings().max_concurrent_streams}.",
               zero_is_default=True),
        Mapped("max-connections", "wire.max_connections",
               "Open connections; above it the longest idle ones are closed."),
        Mapped("max-connections-per-address", "wire.max_connections_per_address",
               "Open connections of one client address; further ones are closed at once."),
        Mapped("max-handshakes", "wire.max_handshakes",
               "TLS handshakes in progress; further connections are closed at once."),
        Mapped("max-handshakes-per-address", "wire.max_handshakes_per_address",
               "TLS handshakes in progress of one client address; further connections wait for one of them."),
        Mapped("handshake-timeout", "wire.handshake_timeout", "Time for a TLS handshake."),
        Mapped("request-header-timeout", "wire.header_timeout",
               "Time from the first byte of a request's header to its last."),
        Mapped("request-body-timeout", "wire.body_timeout", "Time for the body of a request."),
        Mapped("request-body-min-rate", "wire.min_body_rate",
               "Bytes per second that a client has to send of a body, on average, after ten seconds.", "int"),
        Mapped("connection-idle-timeout", "wire.idle_timeout",
               "Time after which a connection without requests is closed."),
        Mapped("max-request-body-bytes-unauthenticated", "wire.max_unknown_body",
               "Bytes of a request body that are read before the caller is authenticated."),
        Mapped("max-buffered-request-bytes-unauthenticated", "wire.max_buffered_unknown",
               "Bytes of unfinished request bodies of all callers that are not authenticated."),
        Mapped("max-buffered-request-bytes-per-address", "wire.max_buffered_per_address",
               "Bytes of unfinished request bodies of one client address."),
        Mapped("max-buffered-request-bytes", "wire.max_buffered_bodies",
               "Bytes of unfinished request bodies of all clients."),
        Mapped("max-unsent-bytes", "wire.max_unsent",
               "Bytes of responses that wait to be sent to all clients; above half of it long lists pause, above it the slowest readers are disconnected."),
        Mapped("slow-reader-timeout", "wire.write_stall_timeout",
               "Time after which a client that reads a response more slowly than --slow-reader-min-rate is disconnected."),
        Mapped("slow-reader-min-rate", "wire.min_read_rate",
               "Bytes per second that a client has to read of a response that waits for it.", "int"),
    )  # fmt: skip

    wire: WireSettings = WireSettings()

    def problems(self) -> Iterator[str]:
        names = {entry.path.removeprefix("wire."): entry.flag for entry in self.TABLE}
        for problem in self.wire.problems():
            attribute, _, rest = problem.partition(" ")
            yield f"--{names.get(attribute, attribute)} {rest}"
