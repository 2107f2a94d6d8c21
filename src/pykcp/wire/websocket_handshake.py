"""The opening handshake of a WebSocket (RFC 6455, section 4).

Separate from `websocket`, so that wsproto is imported only for the first WebSocket.
"""

from __future__ import annotations

import base64
import hashlib

from pykcp.wire.exchange import Header
from pykcp.wire.request import Request

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def is_websocket_request(request: Request) -> bool:
    """Whether the client asks for the protocol in the one version there is."""
    key = request.header("sec-websocket-key")
    return (
        request.method == "GET"
        and key is not None
        and _is_key(key)
        and "websocket" in tokens(request, "upgrade")
        and "upgrade" in tokens(request, "connection")
        and request.header("sec-websocket-version") == "13"
    )


def tokens(request: Request, name: str) -> set[str]:
    """The words of a header that lists some."""
    values = ",".join(request.header_all(name))
    return {token.strip().lower() for token in values.split(",")}


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except ValueError:
        return False


def accept_headers(request: Request, subprotocol: str) -> list[Header]:
    """The answer to the client's key."""
    key = request.header("sec-websocket-key") or ""
    digest = hashlib.sha1(key.encode("latin-1") + _MAGIC, usedforsecurity=False).digest()
    headers = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-accept", base64.b64encode(digest).decode()),
    ]
    if subprotocol:
        headers.append(("sec-websocket-protocol", subprotocol))
    return headers
