"""The servers behind a mapping: how they are reached, and which paths may be sent to them."""

from __future__ import annotations

from urllib.parse import unquote

from pykcp.clients.direct import Direct
from pykcp.clients.forwarder import Forwarder
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import BadRequest
from pykcp.proxy.identity import IdentityHeaders
from pykcp.proxy.mapping import PathMapping
from pykcp.server.forwarding import HOPS, read_hops
from pykcp.server.media.answers import PageNotFound
from pykcp.wire.exchange import Header, IncomingRequest

OPERATOR = Tenant("")
"""Chose all servers of mappings."""
_DOTS = frozenset((".", ".."))


class ProxyBackend:
    """The servers of a mapping: how they are reached, and how users are named to them."""

    def __init__(self, mapping: PathMapping, connections: Direct) -> None:
        self.mapping = mapping
        self.identity = IdentityHeaders(mapping)
        trust = Trust.of_files(
            mapping.backend_server_ca, mapping.proxy_client_cert, mapping.proxy_client_key
        )
        self.forwarder = Forwarder(connections, trust)
        self.url = mapping.backend.rstrip("/")


def hop_headers(request: IncomingRequest) -> list[Header]:
    via = [*request.header_all("x-forwarded-for"), request.peer.address]
    return [("x-forwarded-for", ", ".join(via)), (HOPS, str(read_hops(request) + 1))]


def is_plain(path: str) -> bool:
    """Whether a path means the same to everybody: nothing in it is escaped, empty or relative."""
    return "%" not in path and "//" not in path and "/." not in path


def check_path(path: str) -> None:
    """Raises the error for a path that servers might understand in different ways."""
    segments = [unquote(segment) for segment in path.split("/")]
    if not _DOTS.isdisjoint(segments):
        raise BadRequest("invalid path: relative segments are not allowed")
    if len(segments) > 1 and "/" in segments[1]:
        raise PageNotFound
