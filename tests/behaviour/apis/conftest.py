"""A server with users who are nobody in particular."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Users alice (with token `alice-token`) and bob, in no groups."""
    directory = tmp_path_factory.mktemp("apis")
    tokens = directory / "tokens.csv"
    tokens.write_text("alice-token,alice,a1\nbob-token,bob,b1\n")
    with server(f"--token-auth-file={tokens}", directory=directory) as process:
        yield process


@pytest.fixture
def cluster(shard: ServerProcess) -> TestClient:
    """system:masters in a fresh logical cluster that is ready."""
    client = make_cluster(shard, f"test{next(_numbers)}")
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
    assert client.patch(path, {"status": {"phase": "Ready"}}).status == 200
    return client


@pytest.fixture
def provider(cluster: TestClient, shard: ServerProcess) -> TestClient:
    """Another such cluster."""
    client = make_cluster(shard, f"provider{next(_numbers)}")
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
    assert client.patch(path, {"status": {"phase": "Ready"}}).status == 200
    return client
