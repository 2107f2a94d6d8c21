"""Error responses of a server."""

from __future__ import annotations

import json
from typing import Any

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote

_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, "
        "but may still be processing the request"
    ),
}


class ServerError(PluginError):
    """An error response; its text is the server's, or client-go's message for a plain code."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def is_not_found(self) -> bool:
        return self.code == 404

    @property
    def is_forbidden(self) -> bool:
        return self.code == 403

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


def status_error(code: int, body: bytes, method: str, about: str) -> ServerError:
    """`about` names the requested object: `workspaces.tenancy.kcp.io ~`."""
    try:
        status: Any = json.loads(body)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and status.get("message"):
        return ServerError(code, str(status.get("reason", "")), str(status["message"]))
    return ServerError(code, "", _generic(code, body) + _about(method, about))


def _generic(code: int, body: bytes) -> str:
    text = body[:2048].decode(errors="replace").strip()
    if code in _MESSAGES:
        return _MESSAGES[code]
    if code in (403, 406, 415):
        return text or "unknown"
    if code >= 500:
        return (
            f"an error on the server ({quote(text or 'unknown')}) "
            "has prevented the request from succeeding"
        )
    return f"the server responded with the status code {code} but did not return more information"


def _about(method: str, about: str) -> str:
    return f" ({method.lower()} {about})" if about else ""
