"""Which requests a server of several answers, hands over or lets wait; and what it says of clients."""

from __future__ import annotations

import pytest

from pykcp.programs.shard.servers.current_reads import must_be_current
from pykcp.programs.shard.servers.follower_requests import is_answered_here
from pykcp.programs.shard.servers.handover import decode_peer, encode_peer
from pykcp.wire.heads import Head
from pykcp.wire.request import ConnectionPeer, Request


def request(method: str, target: str) -> Request:
    return Request(Head(method, target, []), ConnectionPeer("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/namespaces", True),
        ("GET", "/clusters/root:a/apis/apps/v1/deployments?watch=true", True),
        ("HEAD", "/clusters/*/api/v1/configmaps", True),
        ("GET", "/apis", True),
        ("GET", "/clusters/root/openapi/v3", True),
        ("POST", "/api/v1/namespaces", False),
        ("PATCH", "/clusters/root/api/v1/namespaces/x", False),
        ("GET", "/apiserver", False),
        ("GET", "/metrics", False),
        ("GET", "/readyz", False),
        ("GET", "/services/apiexport/root/x/clusters/*/api/v1/configmaps", False),
        ("GET", "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/~", False),
        ("GET", "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/%7E", False),
        ("GET", "/debug/tasks", False),
    ],
)
def test_followers_answer_reads_of_the_store_alone(
    method: str, target: str, expected: bool
) -> None:
    assert is_answered_here(request(method, target)) is expected


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/configmaps", True),
        ("GET", "/api/v1/configmaps?resourceVersion=", True),
        ("GET", "/api/v1/configmaps?resourceVersion=0", False),
        ("GET", "/api/v1/configmaps?resourceVersion=100", False),
        ("GET", "/api/v1/configmaps?resourceVersion=101", True),
        ("GET", "/api/v1/configmaps?watch=true&resourceVersion=7", False),
        ("GET", "/api/v1/configmaps?resourceVersion=nonsense", True),
        ("GET", "/api/v1/configmaps?limit=1&continue=abc", True),
        ("GET", "/clusters/root/apis", True),
        ("GET", "/services/apiexport/root/x/clusters/*/api/v1/configmaps", True),
        ("POST", "/api/v1/configmaps", True),
        ("DELETE", "/api/v1/configmaps?resourceVersion=0", True),
        ("GET", "/readyz", False),
        ("GET", "/metrics", False),
        ("GET", "/version", False),
    ],
)
def test_requests_without_a_known_revision_wait(method: str, target: str, expected: bool) -> None:
    assert must_be_current(request(method, target), revision=100) is expected


@pytest.mark.parametrize(
    ("address", "certificate", "intermediates"),
    [
        ("127.0.0.1", None, ()),
        ("fe80::1%eth0", b"certificate", ()),
        ("::1", b"\x00\xff", (b"one", b"two")),
    ],
)
def test_what_is_said_of_a_client_is_understood(
    address: str, certificate: bytes | None, intermediates: tuple[bytes, ...]
) -> None:
    peer = ConnectionPeer(address, 4711)
    peer.protocol, peer.certificate, peer.intermediates = "HTTP/2.0", certificate, intermediates
    found = decode_peer(encode_peer(3, peer))
    assert (found.address, found.port, found.protocol) == (address, 4711, "HTTP/2.0")
    assert (found.certificate, found.intermediates) == (certificate, intermediates)


def test_followers_do_not_report_the_progress_of_the_writer() -> None:
    head = Head("GET", "/clusters/*/api/v1/configmaps?watch=true", [("x-pykcp-progress", "1")])
    assert not is_answered_here(Request(head, ConnectionPeer("127.0.0.1", 1)))
