"""An issuer of tokens, and what tests ask of a server to see who somebody is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykcp.testing.client import Reply, TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.issuer import TestIssuer
from pykcp.testing.server import ServerProcess

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SECONDS = 20.0


@pytest.fixture(scope="module")
def issuer() -> Iterator[TestIssuer]:
    made = TestIssuer("RS256", "ES256")
    yield made
    made.close()


class Asking:
    """Who a token's holder is, by the server's own word."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def client(self, token: str, cluster: str = "root") -> TestClient:
        return self.server.client(cluster=cluster).with_token(token)

    def review(self, token: str, cluster: str = "root") -> Reply:
        """TokenReview, by an administrator."""
        return self.server.client(cluster=cluster).post(
            "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}}
        )

    def user(self, token: str, cluster: str = "root") -> dict[str, Any]:
        status = self.review(token, cluster).json["status"]
        assert status.get("authenticated"), status
        found: dict[str, Any] = status["user"]
        return found

    def status(self, token: str, cluster: str = "root", path: str = "/api/v1/secrets") -> int:
        """How a request with the token ends: 401 if it proves nothing."""
        return self.client(token, cluster).get(path).status

    def make_ready(self, name: str) -> TestClient:
        """A logical cluster that lets people in who may."""
        made = make_cluster(self.server, name)
        path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
        ready = made.patch(path, {"status": {"phase": "Ready"}})
        assert ready.status == 200, ready
        return made

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Waits for something that comes by itself."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = holds()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what}, not within {SECONDS:g} s:\n{self.server.log()[-2000:]}")

    def until_accepted(self, token: str, cluster: str = "root") -> None:
        self.until(
            lambda: self.review(token, cluster).json["status"].get("authenticated"),
            "the token is accepted",
        )


@pytest.fixture
def asking() -> Callable[[ServerProcess], Asking]:
    return Asking
