"""The flags that limit connections; what they protect is in docs/operate/limits.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykcp.cli.flags import Flag, FlagError
from pykcp.wire.settings import WireSettings

STREAMS = "http2-max-streams-per-connection"
"""kube-apiserver's, for which 0 stands for the server's choice."""

_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("max-connections", "max_connections",
     "Open connections; above it the longest idle ones are closed."),
    ("max-connections-per-address", "max_connections_per_address",
     "Open connections of one client address; further ones are closed at once."),
    ("max-handshakes", "max_handshakes",
     "TLS handshakes in progress; further connections are closed at once."),
    ("max-handshakes-per-address", "max_handshakes_per_address",
     "TLS handshakes in progress of one client address."),
    ("handshake-timeout", "handshake_timeout", "Time for a TLS handshake."),
    ("request-header-timeout", "header_timeout",
     "Time from the first octet of a request's header to its last."),
    ("request-body-timeout", "body_timeout", "Time for the body of a request."),
    ("request-body-min-rate", "min_body_rate",
     "Bytes per second that a client has to send of a body, on average, after ten seconds."),
    ("connection-idle-timeout", "idle_timeout",
     "Time after which a connection without requests is closed."),
    ("max-request-body-bytes-unauthenticated", "max_unknown_body",
     "Bytes of a request body that are read before the caller is authenticated."),
    ("max-buffered-request-bytes-unauthenticated", "max_buffered_unknown",
     "Bytes of unfinished request bodies of all callers that are not authenticated."),
    ("max-buffered-request-bytes-per-address", "max_buffered_per_address",
     "Bytes of unfinished request bodies of one client address."),
    ("max-buffered-request-bytes", "max_buffered_bodies",
     "Bytes of unfinished request bodies of all clients."),
    ("max-unsent-bytes", "max_unsent",
     "Bytes of responses that wait to be sent to all clients; above half of it long lists pause, above it the slowest readers are cut off."),
    ("slow-reader-timeout", "write_stall_timeout",
     "Time after which a client that reads a response more slowly than --slow-reader-min-rate is cut off."),
    ("slow-reader-min-rate", "min_read_rate",
     "Bytes per second that a client has to read of a response that waits for it."),
)  # fmt: skip
"""Flag, field of the settings, meaning."""
_DEFAULTS = WireSettings()


def _flag(name: str, field: str, meaning: str) -> Flag:
    default = getattr(_DEFAULTS, field)
    if name.endswith("-timeout"):
        return Flag(name, "duration", default, meaning)
    return Flag(name, "int", int(default), meaning)


CONNECTION_FLAGS: list[Flag] = [
    Flag(
        STREAMS,
        "int",
        0,
        f"Requests in progress on one HTTP/2 connection, watches included; 0 is {_DEFAULTS.max_concurrent_streams}.",
    ),
    *(_flag(*each) for each in _FIELDS),
]


def wire_settings(values: dict[str, Any]) -> WireSettings:
    """Raises FlagError, in the flags' names."""
    names = {field: name for name, field, _ in _FIELDS}
    names["max_concurrent_streams"] = STREAMS
    given = {field: values[name] for name, field, _ in _FIELDS}
    streams = values[STREAMS] or _DEFAULTS.max_concurrent_streams
    settings = replace(_DEFAULTS, max_concurrent_streams=streams, **given)
    problems = (problem.partition(" ") for problem in settings.problems())
    if found := [f"--{names.get(field, field)} {rest}" for field, _, rest in problems]:
        raise FlagError("\n".join(found))
    return settings
