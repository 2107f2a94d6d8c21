"""A server with some people, for everything about workspaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

TOKENS = 'alice-token,alice,a1,"devs"\nbob-token,bob,b1\n'


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """alice is an administrator of root, bob is not."""
    directory = tmp_path_factory.mktemp("workspaces")
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    with server(f"--token-auth-file={tokens}", directory=directory) as process:
        make_admin(process.client(cluster="root"), "alice")
        yield process


def make_admin(cluster: TestClient, user: str) -> None:
    """Let a user do everything in a logical cluster."""
    group = "rbac.authorization.k8s.io"
    made = cluster.post(
        f"/apis/{group}/v1/clusterrolebindings",
        {
            "metadata": {"name": f"admin-{user}"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": group},
        },
    )
    assert made.status == 201, made


@pytest.fixture
def alice(root: TestClient) -> TestClient:
    return root.with_token("alice-token")


@pytest.fixture
def bob(root: TestClient) -> TestClient:
    return root.with_token("bob-token")
