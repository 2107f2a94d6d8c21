"""Servers with the gates that cached resources need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server("--feature-gates=CacheAPIs=true") as process:
        yield process
