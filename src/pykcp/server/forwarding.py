"""Header policies of forwarded requests, and the responses if forwarding fails.

`clients.forwarder` carries requests. Here is what a header policy says of their headers; headers
in which a proxy names a user (`X-Remote-*`) never pass, they are set where a policy says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from urllib.parse import quote, urlsplit

from pykcp.auth.impersonation import is_requested
from pykcp.auth.user import User
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward, passed_headers
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import BadRequest, RequestEntityTooLarge
from pykcp.server.call import Call
from pykcp.server.media.answers import PlainError
from pykcp.wire.exchange import Header, IncomingRequest

_log = logging.getLogger(__name__)

HOPS = "x-pykcp-mount-hops"
_MOST_HOPS = 8
_IN_PATHS = "/:@!$&'()*+,;=~"
"""What stands in paths as it is, besides letters and digits."""
_IN_QUERIES = _IN_PATHS + '%?#[]"<>\\^`{|}'
"""Whatever a query may hold that does not end a request line."""
_DOTS = frozenset((".", ".."))
_REPLACED = frozenset(("x-forwarded-for", HOPS))
_IDENTITY = "x-remote-"
_CREDENTIALS = ("impersonate-", "authorization", "cookie")


class BadGateway(PlainError):
    """Go's proxies answer 502 with an empty body."""

    code = 502

    def __init__(self) -> None:
        super().__init__("")


class LoopDetected(PlainError):
    """A mount of itself would be requested for ever."""

    code = 508

    def __init__(self) -> None:
        super().__init__("mount loop detected")


async def forward(
    call: Call,
    forwarder: Forwarder,
    target: str,
    headers: Sequence[Header],
    tenant: Tenant,
    failed: SendFailed | None = None,
) -> None:
    """Have a call answered below `target`. Raises the error to answer if there is no answer."""
    onward = make_onward(call, target, headers, tenant)
    try:
        await forwarder.forward(call.exchange, onward, failed)
    except (SendFailed, TimeoutError) as error:
        _log.warning("%s does not answer: %s", _origin(target), error)
        if call.exchange.responded:
            raise
        raise BadGateway from error


def make_onward(call: Call, target: str, headers: Sequence[Header], tenant: Tenant) -> Onward:
    """Where a call goes next. Raises the error to answer if it may not go there."""
    request = call.exchange.request
    if request.truncated:
        raise RequestEntityTooLarge("Request entity too large: limit is 3145728")
    if read_hops(request) >= _MOST_HOPS:
        raise LoopDetected
    url = address(target, call.info.path, request.query)
    if not any(name == "host" for name, _ in headers):
        headers = [*headers, ("host", urlsplit(url).netloc.rpartition("@")[2])]
    return Onward(url, headers, tenant)


def address(target: str, path: str, query: str) -> str:
    """The target's URL with the request's path, which is decoded, below it."""
    if not _DOTS.isdisjoint(path.split("/")):
        raise BadRequest("invalid path: it escapes the mount")
    parts = urlsplit(target)
    joined = f"{parts.path.rstrip('/')}/{quote(path.lstrip('/'), safe=_IN_PATHS)}"
    queries = "&".join(q for q in (parts.query, quote(query, safe=_IN_QUERIES)) if q)
    return f"{parts.scheme}://{parts.netloc}{joined}" + (f"?{queries}" if queries else "")


def _origin(target: str) -> str:
    """Without path and query, which may hold secrets of the user who chose it."""
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# --- headers ----------------------------------------------------------------------


class HeaderPolicy(Protocol):
    """The headers of a forwarded request."""

    def headers(self, request: IncomingRequest, user: User | None) -> list[Header]: ...


class PassCredentials:
    """The credentials of the client pass: the server authenticates it."""

    def __init__(self, is_proxied: Callable[[IncomingRequest], bool] = lambda _: False) -> None:
        """`is_proxied`: whether a trusted proxy sent a request; then its user headers are forwarded."""
        self._is_proxied = is_proxied

    def headers(self, request: IncomingRequest, user: User | None = None) -> list[Header]:
        headers = sent_headers(request)
        return headers if self._is_proxied(request) else without(headers, _IDENTITY)


class RequestHeaderIdentity:
    """Sends the user's name in `X-Remote-*` headers, to servers that trust the client certificate.

    Credentials are not forwarded: the server may belong to a tenant.
    """

    def __init__(self, is_believed: bool) -> None:
        """`is_believed`: whether there is a client certificate; without one no server would trust the name."""
        self._is_believed = is_believed

    def headers(self, request: IncomingRequest, user: User | None) -> list[Header]:
        headers = without(sent_headers(request), _IDENTITY, *_CREDENTIALS)
        if self._is_believed and user is not None:
            headers += identity_headers(user)
        return headers


class Impersonate:
    """The server is asked with our own credentials, as the user."""

    def __init__(self, token: str) -> None:
        """`token`: of this process; "" if it shows a certificate."""
        self._own = [("authorization", f"Bearer {token}")] if token else []

    def headers(self, request: IncomingRequest, user: User | None) -> list[Header]:
        assert user is not None
        headers = without(sent_headers(request), _IDENTITY, "authorization")
        if is_requested(request.headers):  # by a master: that is up to the server
            return [*headers, *self._own]
        return [*without(headers, "impersonate-"), *self._own, *impersonation_headers(user)]


def sent_headers(request: IncomingRequest) -> list[Header]:
    """What the client sent, but for what concerns only its connection to this process."""
    headers = [h for h in passed_headers(request.headers) if h[0] not in _REPLACED]
    via = [*request.header_all("x-forwarded-for"), request.peer.address]
    headers.append(("x-forwarded-for", ", ".join(via)))
    headers.append((HOPS, str(read_hops(request) + 1)))
    return headers


def without(headers: Iterable[Header], *starts: str) -> list[Header]:
    """The headers whose names start with none of these."""
    return [(name, value) for name, value in headers if not name.startswith(starts)]


def read_hops(request: IncomingRequest) -> int:
    """How many mounts a request has come through."""
    text = request.header(HOPS) or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else _MOST_HOPS


def identity_headers(user: User) -> list[Header]:
    """A user as a trusted proxy names it to a server."""
    headers = [("x-remote-user", user.name)]
    headers += [("x-remote-group", group) for group in user.groups]
    return headers + _extra_headers(user, "x-remote-extra-")


def impersonation_headers(user: User) -> list[Header]:
    """The headers that make a request this user's."""
    headers = [("impersonate-user", user.name)]
    if user.uid:
        headers.append(("impersonate-uid", user.uid))
    headers += [("impersonate-group", group) for group in user.groups]
    return headers + _extra_headers(user, "impersonate-extra-")


def _extra_headers(user: User, prefix: str) -> list[Header]:
    return [
        (prefix + quote(key, safe="").lower(), value)  # HTTP/2 has lower-case names
        for key, values in user.extra.items()
        for value in values
    ]
