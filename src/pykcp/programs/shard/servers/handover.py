"""A request that a follower hands to the writer, with what it knows of the client's connection.

Credentials in headers pass as they are, and the writer authenticates them. A client certificate
and the address belong to the connection, which ends in the follower: they are said in a header
that the writer believes on connections of its own followers only. The header is the same for all
requests of a connection, so the writer remembers what it has found out about it.
"""

from __future__ import annotations

import base64
from collections.abc import Coroutine
from typing import Any

from pykcp.caching import BoundedCache
from pykcp.wire.exchange import Application, Exchange, Header, IncomingRequest, PeerInfo
from pykcp.wire.request import ConnectionPeer, Request

PEER = "x-pykcp-peer"
_MEMO = "processes.peer"
_REMEMBERED = 16_384


class PeerNames:
    """In a follower: the header for each client's connection."""

    def __init__(self) -> None:
        self._count = 0

    def header(self, peer: PeerInfo) -> Header:
        known: Header | None = peer.memo.get(_MEMO)
        if known is None:
            self._count += 1
            known = peer.memo[_MEMO] = (PEER, encode_peer(self._count, peer))
        return known


def encode_peer(number: int, peer: PeerInfo) -> str:
    """`number`: of the connection, among all of its process."""
    certificates = () if peer.certificate is None else (peer.certificate, *peer.intermediates)
    shown = ",".join(base64.b64encode(one).decode() for one in certificates) or "-"
    return f"{number} {peer.protocol} {peer.port} {peer.address} {shown}"


def decode_peer(text: str) -> ConnectionPeer:
    _, protocol, port, address, shown = text.split(" ")
    peer = ConnectionPeer(address, int(port))
    peer.protocol = protocol
    certificates = [base64.b64decode(one) for one in shown.split(",") if shown != "-"]
    if certificates:
        peer.certificate, *rest = certificates
        peer.intermediates = tuple(rest)
    return peer


class HandedRequests:
    """In the writer: answers the requests of one follower as if their clients were connected here."""

    def __init__(self, front: Application) -> None:
        self._front = front
        self._peers: BoundedCache[str, ConnectionPeer] = BoundedCache("handed-peers", _REMEMBERED)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        self._name(request)
        return self._front.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        self._name(exchange.request)
        return self._front.identify(exchange)

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        self._name(exchange.request)
        return self._front.handle(exchange)

    def _name(self, request: IncomingRequest) -> None:
        """Put the client's connection in place of the follower's."""
        text = request.header(PEER)
        assert isinstance(request, Request)
        if text is None or request.peer.memo.get(_MEMO) == text:
            return
        peer = self._peers.get(text)
        if peer is None:
            peer = decode_peer(text)
            peer.memo[_MEMO] = text
            self._peers.put(text, peer)
        request.peer = peer
        request.headers = [header for header in request.headers if header[0] != PEER]
