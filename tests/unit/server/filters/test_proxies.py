"""What travels on with a request that somebody else answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykcp.machinery.status import BadRequest
from pykcp.server.call import Call
from pykcp.server.filters.mounts import MountProxy, address
from pykcp.server.filters.sending import Sender


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


def test_whoever_is_told_the_users_name_is_not_given_their_credentials(
    make_call: Callable[..., Call],
) -> None:
    """An export's owner says where its virtual resources are, and need not be trusted."""
    request, sender = make_call(headers=HEADERS).exchange.request, Sender("", "", "")
    sent = dict(sender._headers(request, "https://x"))
    assert sent["accept"] == "application/json"
    assert not sent.keys() & {"authorization", "x-remote-user", "impersonate-user"}
    assert sender._protocols(request) == ["v4.channel.k8s.io"]


def test_a_mount_is_given_them(make_call: Callable[..., Call]) -> None:
    """It has to find out itself who asks."""
    request, proxy = make_call(headers=HEADERS).exchange.request, MountProxy()
    assert dict(proxy._headers(request, "https://x"))["authorization"] == "Bearer secret"
    assert len(proxy._protocols(request)) == 2
