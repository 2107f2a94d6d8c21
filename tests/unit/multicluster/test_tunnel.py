"""Which requests a syncer answers through its tunnel."""

from __future__ import annotations

import pytest

from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.remote.client import RemoteClient
from pykcp.multicluster.tunnel.dialing import WaitingConnections
from pykcp.multicluster.tunnel.serving import TunnelApplication

OWN = "kcp-own"
PODS = f"/api/v1/namespaces/{OWN}/pods"
SELECTOR = "internal.workloads.kcp.dev/cluster=abc"


@pytest.mark.parametrize(("method", "path", "query", "is_allowed"), [
    ("GET", PODS, "watch=1", True),
    ("GET", f"{PODS}/web-0", "", True),
    ("GET", f"{PODS}/web-0/log", "follow=true", True),
    ("POST", f"{PODS}/web-0/exec", "command=sh", True),
    ("GET", f"{PODS}/web-0/portforward", "", True),
    ("DELETE", f"{PODS}/web-0", "", True),
    ("DELETE", PODS, "", False),
    ("POST", PODS, "", False),
    ("PATCH", f"{PODS}/web-0", "", False),
    ("GET", f"{PODS}/web-0/proxy", "", False),
    ("GET", f"{PODS}/../secrets", "", False),
    ("GET", f"{PODS}/%2e%2e/secrets", "", False),
    ("GET", "/api/v1/namespaces/kube-system/pods", "", False),
    ("GET", "/api/v1/pods", "", False),
    ("GET", f"/api/v1/namespaces/{OWN}/secrets", "", False),
    ("GET", "/api/v1/namespaces", f"labelSelector={SELECTOR.replace('=', '%3D')}", True),
    ("GET", "/api/v1/namespaces", "", False),
    ("GET", "/api/v1/namespaces", f"labelSelector={SELECTOR}x", False),
])  # fmt: skip
def test_requests(method: str, path: str, query: str, is_allowed: bool) -> None:
    client = RemoteClient(HttpClient(Server("http", "localhost", 1)), "test")
    application = TunnelApplication(client, SELECTOR, lambda name: name == OWN)
    assert application.is_allowed(method, path, query) is is_allowed


def test_each_server_gets_connections_of_its_own() -> None:
    waiting = WaitingConnections()
    with waiting.one("a"), waiting.one("a"):
        assert waiting.accepts("a")  # there is no other server
        assert waiting.set_servers(2)
        assert not waiting.set_servers(2)
        assert not waiting.accepts("a")
        assert waiting.accepts("b")
        with waiting.one("b"):
            assert waiting.accepts("a")
        # An address that always leads to the same server gets its connections in the end.
        assert [waiting.accepts("a") for _ in range(25)].count(True) == 1
