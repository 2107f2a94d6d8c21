"""One server for all modules here: each test has a logical cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="package")
def shard() -> Iterator[ServerProcess]:
    with server() as process:
        yield process
