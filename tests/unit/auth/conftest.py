from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from pykcp.auth import certificates

NOW = 1_800_000_000.0


class FakePeer:
    protocol = "HTTP/2.0"
    address = "127.0.0.1"
    port = 1234
    intermediates: tuple[bytes, ...] = ()

    def __init__(self, certificate: bytes | None = None) -> None:
        self.certificate = certificate
        self.memo: dict[str, Any] = {}


class FakeRequest:
    """A request that was never sent: just its parts."""

    def __init__(
        self, headers: Sequence[tuple[str, str]] = (), path: str = "/", peer: FakePeer | None = None
    ) -> None:
        self.method, self.path, self.query = "GET", path, ""
        self.headers = [(name.lower(), value) for name, value in headers]
        self.peer = peer or FakePeer()
        self.body, self.truncated, self.is_streaming = b"", False, False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def header_all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body


RequestMaker = Callable[..., FakeRequest]


@pytest.fixture
def make_request() -> RequestMaker:
    def make(
        *headers: tuple[str, str],
        path: str = "/",
        certificate: bytes | None = None,
        peer: FakePeer | None = None,
    ) -> FakeRequest:
        return FakeRequest(headers, path, peer or FakePeer(certificate))

    return make


@pytest.fixture
def now() -> float:
    return NOW


@pytest.fixture(scope="session")
def client_ca() -> certificates.KeyPair:
    """An EC authority: quick to make; what it signs is what matters."""
    return certificates.create_ca("test-client-ca", NOW)


def der(pair: certificates.KeyPair) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificates.load_certificates(pair.certificate, "test")[0].public_bytes(Encoding.DER)


@pytest.fixture(scope="session")
def to_der() -> Callable[[certificates.KeyPair], bytes]:
    return der
