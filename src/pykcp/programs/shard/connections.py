"""What a shard shows of its connections."""

from __future__ import annotations

from pykcp.observe.metrics import Gauge, Metric
from pykcp.wire.listener import Listener


def connection_metrics(listener: Listener) -> list[Metric]:
    return [
        Gauge("pykcp_connections", "Open connections.", lambda: listener.connection_count),
        Gauge(
            "pykcp_connections_refused",
            "Connections closed at once since the start, because their address or all had too many.",
            lambda: listener.refused,
        ),
        Gauge(
            "pykcp_unsent_bytes",
            "Bytes of responses that wait for clients to read them.",
            lambda: listener.unsent,
        ),
        Gauge(
            "pykcp_slow_readers_cut_off",
            "Responses cut off since the start, because too much waited to be sent.",
            lambda: listener.shed_count,
        ),
        Gauge(
            "pykcp_buffered_request_bytes",
            "Bytes of request bodies that are still being received.",
            lambda: listener.buffered,
        ),
    ]
