"""A server whose users have tokens, and logical clusters in all phases of life."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens: pathlib.Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    users = ("alice", "bob", "carol", "provider")
    tokens.write_text("".join(f"{user}-token,{user},{user}-uid\n" for user in users))
    with server(f"--token-auth-file={tokens}") as process:
        yield process


@pytest.fixture
def at(shard: ServerProcess) -> Callable[..., TestClient]:
    """A client below any path; of system:masters if no user is named."""

    def make(prefix: str, user: str = "") -> TestClient:
        client = shard.client()
        if user:
            client = client.with_token(f"{user}-token")
        client.prefix = prefix
        return client

    return make
