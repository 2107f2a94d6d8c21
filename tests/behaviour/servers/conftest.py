"""A shard that several processes serve, and a client in each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.processes import client_per_process, wait_for_processes
from pykcp.testing.server import ServerProcess, server

PROCESSES = 3


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    """A server of the module's own, whose followers are ready."""
    with server(f"--serving-processes={PROCESSES}") as process:
        wait_for_processes(process, PROCESSES)
        yield process


@pytest.fixture
def clients(shard: ServerProcess) -> Iterator[dict[str, TestClient]]:
    """A client for each process, by the process' name."""
    found = client_per_process(shard, PROCESSES)
    yield found
    for client in found.values():
        client.close()
