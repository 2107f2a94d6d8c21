"""Servers with the gates that cached resources need, and with users."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.https import HTTPSServer
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[HTTPSServer]:
    """A server whose authority the operator trusts with virtual workspaces."""
    made = HTTPSServer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shard(
    tmp_path_factory: pytest.TempPathFactory, elsewhere: HTTPSServer
) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("files")
    tokens = directory / "tokens.csv"
    tokens.write_text("".join(f"{user}-token,{user},{user}-uid\n" for user in ("alice", "bob")))
    pair = issue_client(create_ca("shards", time.time()), "shard", (), time.time())
    (directory / "ca.crt").write_text(elsewhere.ca)
    (directory / "client.crt").write_bytes(pair.certificate)
    (directory / "client.key").write_bytes(pair.key)
    flags = (
        "--feature-gates=CacheAPIs=true,LogicalClusterMigration=true",
        f"--token-auth-file={tokens}",
        f"--shard-virtual-workspace-ca-file={directory / 'ca.crt'}",
        f"--shard-client-cert-file={directory / 'client.crt'}",
        f"--shard-client-key-file={directory / 'client.key'}",
    )
    with server(*flags) as process:
        yield process
