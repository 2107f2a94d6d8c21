"""Servers with the gates that cached resources need, and with users."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens: pathlib.Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("".join(f"{user}-token,{user},{user}-uid\n" for user in ("alice", "bob")))
    gates = "--feature-gates=CacheAPIs=true,LogicalClusterMigration=true"
    with server(gates, f"--token-auth-file={tokens}") as process:
        yield process
