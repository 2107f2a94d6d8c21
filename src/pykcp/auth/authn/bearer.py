"""Where a request carries its bearer token: a header, or a WebSocket subprotocol."""

from __future__ import annotations

import base64
import binascii

from pykcp.auth.authn.interface import CredentialRejected
from pykcp.wire.exchange import IncomingRequest

_MOST_PROTOCOLS = 100
"""Limit on the tokens in one header; further ones are ignored."""
WEBSOCKET_PREFIX = "base64url.bearer.authorization.k8s.io."


def bearer_token(authorization: str | None) -> str | None:
    """The token of an `Authorization` header; None if it carries none."""
    if not authorization:
        return None
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


def websocket_token(request: IncomingRequest) -> str | None:
    """Browsers cannot set headers on a WebSocket; they offer the token as a subprotocol.

    Raises Rejected if it is offered in a way that cannot work.
    """
    if (request.header("upgrade") or "").lower() != "websocket":
        return None
    encoded, others = _offered(request)
    if not encoded:
        return None
    if len(encoded) > 1:
        raise CredentialRejected("multiple base64.bearer.authorization tokens specified")
    token = _decode(encoded[0])
    if token and not others:  # one must be left to be echoed to the client
        raise CredentialRejected("missing additional subprotocol")
    return token or None


def _offered(request: IncomingRequest) -> tuple[list[str], list[str]]:
    """The encoded tokens and the other subprotocols."""
    encoded: list[str] = []
    others: list[str] = []
    for value in request.header_all("sec-websocket-protocol"):
        for protocol in map(str.strip, value.split(",", _MOST_PROTOCOLS)[:_MOST_PROTOCOLS]):
            if protocol.startswith(WEBSOCKET_PREFIX):
                encoded.append(protocol[len(WEBSOCKET_PREFIX) :])
            else:
                others.append(protocol)
    return encoded, others


def _decode(encoded: str) -> str:
    try:
        padding = "=" * (-len(encoded) % 4)
        return base64.b64decode(encoded + padding, altchars=b"-_", validate=True).decode()
    except binascii.Error:
        raise CredentialRejected("invalid base64.bearer.authorization token encoding") from None
    except UnicodeDecodeError:
        raise CredentialRejected("invalid base64.bearer.authorization token") from None


def without_token_protocol(value: str) -> str:
    """A `Sec-WebSocket-Protocol` value that is safe to choose from and to echo."""
    protocols = map(str.strip, value.split(","))
    return ",".join(one for one in protocols if not one.startswith(WEBSOCKET_PREFIX))
