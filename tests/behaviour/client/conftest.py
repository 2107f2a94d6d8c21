"""A server, and clients of it in an event loop of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from pykcp.client import Kcp, Workspace, connect
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="package")
def shard() -> Iterator[ServerProcess]:
    with server() as process:
        yield process


@pytest.fixture
async def kcp(shard: ServerProcess) -> AsyncIterator[Kcp]:
    async with connect(shard.kubeconfig, context="root") as client:
        yield client


@pytest.fixture
async def team(kcp: Kcp) -> AsyncIterator[Workspace]:
    made = await kcp.workspace("root").create("team-")
    yield made
    await made.delete()
