"""A running server for behaviour tests: one per module, a logical cluster per test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    """A server of the module's own."""
    with server() as process:
        yield process


@pytest.fixture
def root(shard: ServerProcess) -> TestClient:
    """system:masters in the logical cluster `root`."""
    return shard.client(cluster="root")


@pytest.fixture
def cluster(shard: ServerProcess) -> TestClient:
    """system:masters in a fresh logical cluster with a namespace `default`."""
    return make_cluster(shard, f"test{next(_numbers)}")
