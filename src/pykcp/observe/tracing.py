"""Traces: which request a piece of work belongs to, across processes.

The header `traceparent` (W3C) of a request is passed on to what it calls, always. Where
OpenTelemetry's packages are installed and a configuration names a collector, each process also
records spans: one for a request, one for each call of a webhook.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pathlib

HEADER = "traceparent"
_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_MILLION = 1_000_000
_KIND = "TracingConfiguration"

_current: ContextVar[str] = ContextVar("traceparent", default="")


def current_trace() -> str:
    """The `traceparent` of the request that is being worked on; "" if it has none."""
    return _current.get()


async def within(traceparent: str, work: Coroutine[Any, Any, None]) -> None:
    """Do the work of a request that belongs to a trace."""
    token = _current.set(traceparent)
    try:
        await work
    finally:
        _current.reset(token)


class TraceSpan(Protocol):
    """A piece of work that is being recorded."""

    traceparent: str
    """For what it calls."""

    def end(self, status: int = 0, error: str = "") -> None:
        """`status`: of HTTP, if it was answered."""


class SpanRecorder(Protocol):
    def begin(
        self, name: str, parent: str, attributes: dict[str, str], *, is_client: bool = False
    ) -> TraceSpan: ...

    def close(self) -> None:
        """Send what is recorded."""


class _Recording:
    """Where spans of this process go; one for all its parts, as loggers are."""

    recorder: SpanRecorder | None = None


def install(recorder: SpanRecorder | None) -> None:
    _Recording.recorder = recorder


def installed() -> SpanRecorder | None:
    return _Recording.recorder


@contextmanager
def calling(name: str, **attributes: str) -> Iterator[str]:
    """Around a call of another server: the `traceparent` to send, "" if there is none."""
    recorder, parent = _Recording.recorder, _current.get()
    if recorder is None or not parent:
        yield parent
        return
    span = recorder.begin(name, parent, attributes, is_client=True)
    try:
        yield span.traceparent
    except BaseException as error:
        span.end(error=str(error) or type(error).__name__)
        raise
    span.end()


class TracingConfig(NamedTuple):
    endpoint: str = "localhost:4317"
    """Host and port of a collector that speaks OTLP over gRPC."""
    sampling_rate_per_million: int = 0
    """How many of the requests that come without a trace are recorded."""


class BadTracingConfig(ValueError):
    """The message says what is wrong."""


def load_tracing_config(path: pathlib.Path) -> TracingConfig:
    """Kubernetes' TracingConfiguration. Raises BadTracingConfig and OSError."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise BadTracingConfig(f"{path} is not YAML: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != _KIND:
        raise BadTracingConfig(f"{path} must be of kind {_KIND}")
    group, _, _ = str(found.get("apiVersion")).partition("/")
    if group != "apiserver.config.k8s.io":
        raise BadTracingConfig(f"{path} must be of group apiserver.config.k8s.io")
    rate = found.get("samplingRatePerMillion") or 0
    if not isinstance(rate, int) or not 0 <= rate <= _MILLION:
        raise BadTracingConfig(f"{path}: samplingRatePerMillion must be from 0 to {_MILLION}")
    endpoint = found.get("endpoint") or TracingConfig().endpoint
    if not isinstance(endpoint, str) or "://" in endpoint:
        raise BadTracingConfig(f"{path}: endpoint must be host:port")
    return TracingConfig(endpoint, rate)


def make_recorder(config: TracingConfig, service: str) -> SpanRecorder:
    """Raises BadTracingConfig if OpenTelemetry is not installed."""
    try:
        from pykcp.observe.otel import OtelRecorder
    except ImportError as error:
        raise BadTracingConfig(
            'traces need an extra that is not installed: pip install "pykcp[otel]"'
        ) from error
    return OtelRecorder(config, service)


def parsed(traceparent: str) -> tuple[int, int, int] | None:
    """Trace, span and flags; None if it is not valid."""
    found = _FORM.fullmatch(traceparent)
    if found is None:
        return None
    trace, span, flags = (int(part, 16) for part in found.groups())
    return (trace, span, flags) if trace and span else None
