"""One server that exports Kubernetes' kinds, and workspaces that bind them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import inside, make_workspace

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="package")
def exporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: pathlib.Path = tmp_path_factory.mktemp("kubernetes")
    with server("--batteries-included=+kubernetes", directory=directory) as shard:
        yield shard


@pytest.fixture(scope="package")
def workspace(exporting: ServerProcess) -> TestClient:
    return bound(exporting, "demo")


@pytest.fixture
def second_workspace(exporting: ServerProcess) -> TestClient:
    return bound(exporting, "second")


def bound(shard: ServerProcess, name: str) -> TestClient:
    root = shard.client(cluster="root")
    make_workspace(root, name)
    client = inside(root, name)
    assert client.get(PODS).status == 404
    client.post(BINDINGS, binding("kubernetes", "kubernetes", "root"))
    eventually(lambda: client.get(PODS).status == 200, 60)  # a hundred kinds are bound
    return client
