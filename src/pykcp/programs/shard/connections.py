"""Metrics of a shard's connections."""

from __future__ import annotations

from pykcp.observe.metrics import Gauge, Metric
from pykcp.wire.listener import Listener


def connection_metrics(listener: Listener) -> list[Metric]:
    return [
        Gauge("pykcp_connections", "Open connections.", lambda: listener.connection_count),
        Gauge(
            "pykcp_connections_refused",
            "Connections rejected since start because of a limit per address or in total.",
            lambda: listener.refused,
        ),
        Gauge(
            "pykcp_unsent_bytes",
            "Bytes of responses not yet read by clients.",
            lambda: listener.unsent,
        ),
        Gauge(
            "pykcp_slow_readers_cut_off",
            "Responses aborted since start because the client read too slowly.",
            lambda: listener.shed_count,
        ),
        Gauge(
            "pykcp_buffered_request_bytes",
            "Bytes of request bodies being received.",
            lambda: listener.buffered,
        ),
    ]
