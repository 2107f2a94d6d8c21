"""Requests without a socket: an exchange that remembers its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pykcp.apis.catalog import builtin_definitions
from pykcp.apis.kcp_catalog import kcp_definitions
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.server.request_info import parse


class FakePeer:
    protocol = "HTTP/1.1"
    port = 1
    certificate = None
    intermediates: tuple[bytes, ...] = ()

    def __init__(self, address: str) -> None:
        self.address = address
        self.memo: dict[str, Any] = {}


class FakeRequest:
    is_streaming = False

    def __init__(
        self, method: str, url: str, body: bytes, headers: dict[str, str], address: str
    ) -> None:
        self.method = method
        self.path, _, self.query = url.partition("?")
        self.headers = [(k.lower(), v) for k, v in headers.items()]
        self.body = body
        self.truncated = False
        self.peer = FakePeer(address)

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k == name), None)

    def header_all(self, name: str) -> list[str]:
        return [v for k, v in self.headers if k == name]


class FakeExchange:
    """Takes one answer and keeps it."""

    def __init__(self, request: FakeRequest) -> None:
        self.request = request
        self.responded = False
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = b""

    def respond(
        self, status: int, headers: Sequence[tuple[str, str]], body: bytes | Sequence[bytes] = b""
    ) -> None:
        assert not self.responded
        self.responded = True
        self.status, self.headers = status, list(headers)
        self.body = body if isinstance(body, bytes) else b"".join(body)

    def start(self, status: int, headers: Sequence[tuple[str, str]]) -> FakeStream:
        assert not self.responded
        self.responded = True
        self.status, self.headers = status, list(headers)
        return FakeStream(self)


class FakeStream:
    """An answer that comes in pieces."""

    backlog = 0
    closed = False

    def __init__(self, exchange: FakeExchange) -> None:
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        self._exchange.body += data

    def end(self, trailers: Sequence[tuple[str, str]] = ()) -> None:
        self.closed = True


MakeCall = Callable[..., Call]


def builtin_resource(group: str, plural: str, version: str) -> Resource:
    """A built-in resource that is asked nothing of its store."""
    known = (*builtin_definitions(), *kcp_definitions())
    definition = next(d for d in known if (d.group, d.plural) == (group, plural))
    return make_resource(definition, version, None)  # type: ignore[arg-type]


@pytest.fixture
def make_call() -> MakeCall:
    def make(
        method: str = "GET",
        url: str = "/api/v1/namespaces",
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        address: str = "192.0.2.7",
    ) -> Call:
        request = FakeRequest(method, url, body, headers or {}, address)
        info = parse(method, request.path, request.query)
        call = Call(FakeExchange(request), info)  # type: ignore[arg-type]
        if info.is_resource and info.resource != "nosuch":
            call.resource = builtin_resource(info.group, info.resource, info.version)
        return call

    return make
