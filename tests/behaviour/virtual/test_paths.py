"""`/services/`: paths that lead nowhere, and how that is said."""

from __future__ import annotations

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess

NOWHERE = (
    "/services/",
    "/services/nonsense/x",
    "/services/apiexport",
    "/services/apiexport/root/x/clusters/root:org/api",
)


def client(shard: ServerProcess, context: str) -> TestClient:
    client = shard.client(context)
    client.prefix = ""
    return client


@pytest.mark.parametrize("path", NOWHERE)
def test_masters_find_nothing(shard: ServerProcess, path: str) -> None:
    reply = client(shard, "shard-base").get(path)
    assert (reply.status, reply.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("path", NOWHERE)
def test_others_are_refused(shard: ServerProcess, path: str) -> None:
    reply = client(shard, "base").get(path)
    assert reply.status == 403
    assert reply.json["message"] == (
        f'forbidden: User "kcp-admin" cannot get path "{path}": '
        "Path not resolved to a valid virtual workspace"
    )


def test_without_slash(shard: ServerProcess) -> None:
    reply = client(shard, "base").get("/services")
    assert (reply.status, reply.header("location")) == (307, "/services/")
