"""An installation of two shards, shared by tests that stop none of its parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet, fleet

_SHARDS = "/apis/core.kcp.io/v1alpha1/shards"


@pytest.fixture(scope="package")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    gates = "--feature-gates=WorkspaceAuthentication=true,CacheAPIs=true"
    with fleet(tmp_path_factory.mktemp("fleet"), shard_flags=(gates,)) as made:
        yield made


@pytest.fixture
def root(shared_fleet: Fleet) -> TestClient:
    """An administrator in root, through the front-proxy."""
    client = shared_fleet.client(cluster="root")
    eventually(lambda: len(client.get(_SHARDS).json["items"]) == 2)
    return client
