"""Requests that a page of another site makes a browser send with its user's certificate.

Tokens are sent by scripts, which browsers keep from calling other sites. A client certificate is
sent with every request, whichever page caused it. Browsers ask first (a CORS preflight) before
all requests except GET and a POST that could come from a form or has no content type, and before
no request that opens a WebSocket. These two are checked.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from pykcp.machinery.status import Forbidden, StatusError
from pykcp.wire.exchange import IncomingRequest

ALLOWED = "cors.origin"
"""In the memo of a connection: the other origin that `--cors-allowed-origins` allows."""
_REFUSED = "requests that pages of other sites send with a client certificate are not allowed"


def refusal(request: IncomingRequest) -> StatusError | None:
    """The error if a page of another site sent this with its user's certificate."""
    if request.peer.certificate is None or not _is_foreign(request):
        return None
    if request.header("authorization") or request.header("x-remote-user"):
        return None  # a proxy or a program sent it: a page cannot add these
    return Forbidden(_REFUSED)


def _is_foreign(request: IncomingRequest) -> bool:
    origin = request.header("origin")
    if origin is None:
        return request.header("sec-fetch-site") in ("cross-site", "same-site")
    if urlsplit(origin).netloc == request.header("host"):
        return False
    return request.peer.memo.get(ALLOWED) != origin
