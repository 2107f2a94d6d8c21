"""What is said to the next server about a request and its user."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

import pytest

from pykcp.auth.user import User
from pykcp.clients.destinations import Destinations
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound
from pykcp.clients.shares import Shares
from pykcp.machinery.status import BadRequest
from pykcp.server.call import Call
from pykcp.server.forwarding import (
    HeaderPolicy,
    Impersonate,
    PassCredentials,
    RequestHeaderIdentity,
    address,
)
from pykcp.virtual.remote_resources import RemoteVirtualResources
from pykcp.wire.exchange import Header, IncomingRequest


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


@pytest.mark.parametrize("query", ["a=b c", "a=b\r\nX-Remote-User: admin", "a=\u00e9"])
def test_a_query_stays_a_query(query: str) -> None:
    url = address("https://x", "/api", query)
    assert all("!" <= c <= "~" for c in url)
    assert unquote(url).endswith(query)


HEADERS = {
    "Authorization": "Bearer secret",
    "X-Remote-User": "admin",
    "X-Remote-Group": "system:masters",
    "X-Remote-Extra-Scopes": "all",
    "Impersonate-User": "admin",
    "Accept": "application/json",
    "Connection": "keep-alive, x-hop",
    "X-Hop": "1",
    "Transfer-Encoding": "chunked",
    "Te": "trailers",
    "Keep-Alive": "timeout=5",
    "Proxy-Authorization": "Basic c2VjcmV0",
    "X-Forwarded-For": "198.51.100.1",
    "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
}
ALICE = User("alice", groups=("devs", "all"), extra={"Example.com/Scope": ("one", "two")})
HOP_BY_HOP = {"connection", "x-hop", "transfer-encoding", "te", "keep-alive", "proxy-authorization"}


def sent(policy: HeaderPolicy, request: IncomingRequest) -> list[Header]:
    return policy.headers(request, ALICE)


def test_headers_of_one_hop_do_not_pass(make_call: Callable[..., Call]) -> None:
    request = make_call(headers=HEADERS).exchange.request
    for policy in (PassCredentials(), RequestHeaderIdentity(is_believed=True), Impersonate("")):
        headers = dict(sent(policy, request))
        assert not headers.keys() & HOP_BY_HOP
        assert headers["accept"] == "application/json"
        assert headers["x-forwarded-for"] == "198.51.100.1, 192.0.2.7"


def test_passed_credentials(make_call: Callable[..., Call]) -> None:
    """The names that a proxy gives pass only if a trusted proxy sent them."""
    request = make_call(headers=HEADERS).exchange.request
    headers = dict(sent(PassCredentials(), request))
    assert headers["authorization"] == "Bearer secret"
    assert headers["impersonate-user"] == "admin"
    assert not any(name.startswith("x-remote-") for name in headers)
    proxied = dict(sent(PassCredentials(lambda _: True), request))
    assert proxied["x-remote-user"] == "admin"


def test_request_header_identity(make_call: Callable[..., Call]) -> None:
    """The server is told the user's name and is not given the credentials."""
    request = make_call(headers=HEADERS).exchange.request
    headers = sent(RequestHeaderIdentity(is_believed=True), request)
    identity = [header for header in headers if header[0].startswith("x-remote-")]
    assert identity == [
        ("x-remote-user", "alice"),
        ("x-remote-group", "devs"),
        ("x-remote-group", "all"),
        ("x-remote-extra-example.com%2fscope", "one"),
        ("x-remote-extra-example.com%2fscope", "two"),
    ]
    assert not dict(headers).keys() & {"authorization", "impersonate-user", "cookie"}
    unproved = sent(RequestHeaderIdentity(is_believed=False), request)
    assert not any(name.startswith("x-remote-") for name, _ in unproved)


@pytest.mark.parametrize("token", ["ours", ""])
def test_impersonation(make_call: Callable[..., Call], token: str) -> None:
    given = {name: value for name, value in HEADERS.items() if name != "Impersonate-User"}
    request = make_call(headers=given).exchange.request
    headers = sent(Impersonate(token), request)
    assert ("authorization", "Bearer secret") not in headers
    assert (("authorization", "Bearer ours") in headers) == bool(token)
    assert ("impersonate-user", "alice") in headers
    assert [v for n, v in headers if n == "impersonate-group"] == ["devs", "all"]
    assert not any(name.startswith("x-remote-") for name, _ in headers)


def test_virtual_resources_get_no_token(make_call: Callable[..., Call]) -> None:
    """An export's owner chooses the server, and need not be trusted."""
    request = make_call(headers=HEADERS).exchange.request
    outbound = Outbound(Destinations(), HostNames(), Shares(1))
    remote = RemoteVirtualResources(outbound, "ca", "cert", "key")
    headers = dict(remote.headers(request, ALICE))
    assert headers["sec-websocket-protocol"] == "v4.channel.k8s.io"
    assert headers["x-remote-user"] == "alice"
    assert "c2VjcmV0" not in " ".join(headers.values())
