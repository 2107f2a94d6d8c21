"""Spans recorded with OpenTelemetry and sent to a collector. Imported only if configured."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from pykcp.observe.tracing import TraceSpan, TracingConfig, parsed


class OtelRecorder:
    def __init__(self, config: TracingConfig, service: str) -> None:
        ratio = config.sampling_rate_per_million / 1_000_000
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service}),
            sampler=ParentBased(TraceIdRatioBased(ratio)),
        )
        exporter = OTLPSpanExporter(endpoint=config.endpoint, insecure=True)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("pykcp")

    def begin(
        self, name: str, parent: str, attributes: dict[str, str], *, is_client: bool = False
    ) -> TraceSpan:
        kind = trace.SpanKind.CLIENT if is_client else trace.SpanKind.SERVER
        context = None
        found = parsed(parent)
        if found is not None:
            known = trace.SpanContext(found[0], found[1], True, trace.TraceFlags(found[2]))
            context = trace.set_span_in_context(trace.NonRecordingSpan(known))
        return _Span(self._tracer.start_span(name, context, kind, attributes))

    def close(self) -> None:
        self._provider.shutdown()


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        at = span.get_span_context()
        self.traceparent = f"00-{at.trace_id:032x}-{at.span_id:016x}-{int(at.trace_flags):02x}"

    def end(self, status: int = 0, error: str = "") -> None:
        if status:
            self._span.set_attribute("http.response.status_code", status)
        if error or status >= 500:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()
