"""A trace goes on from a request to the webhooks that it calls, and through the front-proxy."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.migrations import make_on
from pykcp.testing.programs import kcp
from pykcp.testing.sharded import Fleet

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONFIG = """
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: {}
samplingRatePerMillion: 0
"""


def allow(_: Any) -> dict[str, Any]:
    return {"allowed": True}


def test_passed_on_without_any_configuration(hooks: Any) -> None:
    hooks.add("Validating", "traced", allow)
    before = len(hooks.server.traces)
    assert hooks.create("one", headers={"traceparent": PARENT}).status == 201
    assert hooks.create("two").status == 201
    assert hooks.server.traces[before:] == [PARENT, ""]


class Collector:
    """Receives spans over OTLP."""

    def __init__(self) -> None:
        grpc = pytest.importorskip("grpc")
        service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        self.spans: list[tuple[str, Any]] = []
        self._lock = threading.Lock()

        def export(request: Any, _: Any) -> Any:
            with self._lock:
                for resource in request.resource_spans:
                    name = next(
                        attribute.value.string_value
                        for attribute in resource.resource.attributes
                        if attribute.key == "service.name"
                    )
                    for scope in resource.scope_spans:
                        self.spans += [(name, span) for span in scope.spans]
            return service.ExportTraceServiceResponse()

        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            export,
            request_deserializer=service.ExportTraceServiceRequest.FromString,
            response_serializer=service.ExportTraceServiceResponse.SerializeToString,
        )
        name = "opentelemetry.proto.collector.trace.v1.TraceService"
        generic = grpc.method_handlers_generic_handler(name, {"Export": handler})
        self._server.add_generic_rpc_handlers((generic,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def close(self) -> None:
        self._server.stop(0)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.mark.slow
def test_one_trace_from_proxy_to_webhook(
    collector: Collector, hooks_in: Callable[[TestClient], Any], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "tracing.yaml"
    config.write_text(CONFIG.format(f"127.0.0.1:{collector.port}"))
    flag = f"--tracing-config-file={config}"
    made = Fleet(tmp_path / "fleet", 2, (flag,), (flag,))
    try:
        made.start()
        hooks = hooks_in(make_on(made, "traced", "shard-1"))
        hooks.add("Validating", "traced", allow)
        assert hooks.create("plain").status == 201
        assert hooks.create("traced", headers={"traceparent": PARENT}).status == 201
    finally:
        made.stop()  # what is recorded is sent
    trace = bytes.fromhex(PARENT.split("-")[1])
    eventually(lambda: len(collector.spans) >= 3)
    assert {span.trace_id for _, span in collector.spans} == {trace}  # others are not sampled
    by_parent = {span.parent_span_id.hex(): (name, span) for name, span in collector.spans}
    service, proxy = by_parent[PARENT.split("-")[2]]
    assert service == "kcp-front-proxy"
    service, shard = by_parent[proxy.span_id.hex()]
    assert service == "kcp"
    assert shard.name.startswith("POST /clusters/")
    service, webhook = by_parent[shard.span_id.hex()]
    assert webhook.name == "webhook"
    assert hooks.server.traces[-1].split("-")[2] == webhook.span_id.hex()


def test_bad_configurations(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tracing.yaml"
    for text, problem in (
        ("kind: Other", "must be of kind TracingConfiguration"),
        ("kind: TracingConfiguration", "must be of group apiserver.config.k8s.io"),
        (CONFIG.format("http://x:1"), "endpoint must be host:port"),
        (CONFIG.replace(": 0", ": -1").format("x:1"), "samplingRatePerMillion must be from 0"),
        ("[", "is not YAML"),
    ):
        path.write_text(text)
        code, found = kcp(
            "start", f"--tracing-config-file={path}", f"--root-directory={tmp_path / 'r'}"
        )
        assert code == 1
        assert problem in found
