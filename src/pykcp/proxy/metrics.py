"""What the front-proxy counts, under kcp's names."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pykcp.clients.errors import SendFailed
from pykcp.clients.where import MISDIRECTED, MOVED_AT, NOT_HERE
from pykcp.observe.metrics import Counter, Histogram, Registry
from pykcp.proxy.callers import Caller, CallerSeats
from pykcp.wire.exchange import Header, Stream

_BOUNDS = (
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0,
)  # fmt: skip
_METHODS = frozenset(("get", "head", "post", "put", "patch", "delete", "options"))
_TLS_ERRORS = (
    ("unknown authority", "unknown_ca"),
    ("expired", "expired_cert"),
    ("match", "hostname_mismatch"),
    ("tls: failed to verify", "other"),
    ("tls: ", "cipher_mismatch"),
)


class ProxyMetrics:
    def __init__(self, registry: Registry) -> None:
        self.durations = Histogram(
            "proxy_request_duration_seconds",
            "Response latency distribution in seconds for each verb and HTTP response code.",
            ("method", "code"),
            _BOUNDS,
        )
        self.sent = Counter(
            "kcp_backend_rq_body_bytes",
            "Total bytes forwarded in request bodies from clients to backend.",
            ("shard",),
        )
        self.received = Counter(
            "kcp_backend_rs_body_bytes",
            "Total bytes returned in response bodies from backend to clients.",
            ("shard",),
        )
        self._tls_errors = Counter(
            "kcp_listener_tls_connection_error",
            "Total TLS connection failures to backend shards by error type.",
            ("shard", "error_type"),
        )
        self.rerouted = Counter(
            "pykcp_proxy_rerouted_requests_total",
            "Requests repeated at another shard because their route was out of date.",
        )
        self._labels: dict[tuple[str, int], tuple[str, str]] = {}
        """Of known methods; there are as many as methods and statuses."""
        registry.add(self.durations, self.sent, self.received, self._tls_errors, self.rerouted)

    def answered(self, method: str, status: int, started: float) -> None:
        """A request is over; `started` by `time.perf_counter`."""
        labels = self._labels.get((method, status))
        if labels is None:
            name = method.lower()
            labels = (name if name in _METHODS else "unknown", str(status))
            if method.isupper() and name in _METHODS:
                self._labels[(method, status)] = labels
        self.durations.observe(labels, time.perf_counter() - started)

    def failed(self, shard: str, error: SendFailed) -> None:
        """A server did not answer; counted if it was because of TLS."""
        text = str(error)
        kind = next((kind for words, kind in _TLS_ERRORS if words in text), "")
        if kind and "tls" in text:
            self._tls_errors.add((shard or "unknown", kind))


class ForwardedRequest:
    """One request on its way to a server: counted at its end."""

    __slots__ = (
        "_caller", "_method", "_metrics", "_seats", "_started", "is_misdirected", "moved_to",
        "resume", "shard",
    )  # fmt: skip

    def __init__(self, metrics: ProxyMetrics, method: str, shard: str, started: float) -> None:
        """`shard`: "" if it goes to another server."""
        self._metrics, self._method, self._started = metrics, method, started
        self.resume: Callable[[Stream, str, int], None] | None = None
        """Of a watch: goes on at another shard, from a resource version."""
        self.shard = shard
        self.is_misdirected = False
        """The shard does not have the logical cluster …"""
        self.moved_to = ""
        """… and knows which one has it."""
        self._seats: CallerSeats | None = None
        self._caller: Caller = ("", "")

    def hold_seat(self, seats: CallerSeats, caller: Caller) -> None:
        """Until the answer begins, or there is none."""
        self._seats, self._caller = seats, caller

    def release_seat(self) -> None:
        if self._seats is not None:
            seats, self._seats = self._seats, None
            seats.release(self._caller)

    def accepts(self, status: int, headers: Sequence[Header]) -> bool:
        self.release_seat()
        if status != MISDIRECTED:
            return True
        found = [value for name, value in headers if name == NOT_HERE]
        if not found:
            return True
        self.is_misdirected, self.moved_to = True, found[0]
        return False

    def continues(self, stream: Stream, trailers: Sequence[Header]) -> bool:
        found = dict(trailers)
        shard, revision = found.get(NOT_HERE, ""), found.get(MOVED_AT, "")
        if self.resume is None or not shard or not revision.isdecimal():
            return False
        self.resume(stream, shard, int(revision))
        return True

    def ended(self, status: int, received: int, sent: int) -> None:
        self.release_seat()
        if not status:
            return  # it is sent again, or answered here
        metrics = self._metrics
        metrics.answered(self._method, status, self._started)
        if self.shard:
            if sent:
                metrics.sent.add((self.shard,), sent)
            if received:
                metrics.received.add((self.shard,), received)
