"""Mounts whose certificates are verified, and that may lead to some places only."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.https import HTTPSServer
from pykcp.testing.mounts import becomes, install_kind, mount
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def backend() -> Iterator[HTTPSServer]:
    made = HTTPSServer()
    made.on("/api", lambda _: {"kind": "APIVersions"})
    yield made
    made.close()


@pytest.fixture(scope="module")
def shard(
    tmp_path_factory: pytest.TempPathFactory, backend: HTTPSServer
) -> Iterator[ServerProcess]:
    ca: pathlib.Path = tmp_path_factory.mktemp("mounts") / "ca.crt"
    ca.write_text(backend.ca)
    flags = (
        "--feature-gates=WorkspaceMounts=true",
        f"--mount-proxy-ca-file={ca}",
        "--tenant-egress-allow=127.0.0.1",
    )
    with server(*flags) as process:
        install_kind(process.client(cluster="root"))
        yield process


def status(shard: ServerProcess, root: TestClient, url: str) -> int:
    name = mount(root, url)
    becomes(root, name, "Ready")
    return shard.client(cluster=f"root:{name}").get("/api").status


def test_certificates_are_verified(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    assert status(shard, root, backend.url) == 200
    stranger = HTTPSServer()
    try:
        assert status(shard, root, stranger.url) == 502
        assert stranger.received == []
    finally:
        stranger.close()


def test_other_addresses_are_not_allowed(
    shard: ServerProcess, root: TestClient, backend: HTTPSServer
) -> None:
    before = len(backend.received)
    for host in ("127.0.0.2", "[::1]"):
        assert status(shard, root, backend.url.replace("127.0.0.1", host)) == 502
    assert len(backend.received) == before
