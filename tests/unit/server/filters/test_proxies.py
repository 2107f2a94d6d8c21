"""What travels on with a request that somebody else answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykcp.auth.user import User
from pykcp.clients.destinations import Destinations
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound
from pykcp.clients.shares import Shares
from pykcp.machinery.status import BadRequest
from pykcp.server.call import Call
from pykcp.server.filters.forwarding import address, offered_protocols
from pykcp.server.filters.mounts import MountProxy
from pykcp.server.filters.sending import Sender, protocols


@pytest.mark.parametrize(
    ("target", "path", "query", "expected"),
    [
        ("https://x", "/api/v1", "", "https://x/api/v1"),
        ("https://x/base/", "/api/v1", "a=b", "https://x/base/api/v1?a=b"),
        ("https://x/base?k=v", "/api", "a=b", "https://x/base/api?k=v&a=b"),
        ("https://x", "/a b\r\nX-Remote-User: c", "", "https://x/a%20b%0D%0AX-Remote-User:%20c"),
        ("https://x", "/a?b#c%d", "", "https://x/a%3Fb%23c%25d"),
        ("https://x", "/apis/rbac:x/é", "", "https://x/apis/rbac:x/%C3%A9"),
    ],
)
def test_a_path_stays_a_path(target: str, path: str, query: str, expected: str) -> None:
    assert address(target, path, query) == expected


@pytest.mark.parametrize("path", ["/../x", "/a/../../x", "/a/.", "/.."])
def test_no_path_leads_out_of_a_mount(path: str) -> None:
    with pytest.raises(BadRequest):
        address("https://x/clusters/mine", path, "")


HEADERS = {
    "Authorization": "Bearer secret",
    "X-Remote-User": "admin",
    "Impersonate-User": "admin",
    "Accept": "application/json",
    "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
}


def outbound() -> Outbound:
    return Outbound(Destinations(), HostNames(), Shares(1))


def test_whoever_is_told_the_users_name_is_not_given_their_credentials(
    make_call: Callable[..., Call],
) -> None:
    """An export's owner says where its virtual resources are, and need not be trusted."""
    request = make_call(headers=HEADERS).exchange.request
    sent = dict(Sender(outbound(), "ca", "cert", "key").headers(request, User("alice")))
    assert sent["accept"] == "application/json"
    assert sent["x-remote-user"] == "alice"
    assert not sent.keys() & {"authorization", "impersonate-user", "sec-websocket-protocol"}
    assert protocols(request) == ["v4.channel.k8s.io"]
    unproved = dict(Sender(outbound(), "ca", "", "").headers(request, User("alice")))
    assert "x-remote-user" not in unproved  # who would believe it?


def test_a_mount_is_given_them(make_call: Callable[..., Call]) -> None:
    """It has to find out itself who asks."""
    request, proxy = make_call(headers=HEADERS).exchange.request, MountProxy(outbound())
    assert dict(proxy.headers(request))["authorization"] == "Bearer secret"
    assert len(offered_protocols(request)) == 2
