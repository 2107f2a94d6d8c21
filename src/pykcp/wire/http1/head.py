"""HTTP/1.1 heads: a request's checked, an answer's written."""

from __future__ import annotations

import re

from pykcp.wire.exchange import Header
from pykcp.wire.heads import Head, MalformedMessage, parse_content_length

_FORBIDDEN_IN_ANSWER = re.compile(r"[\r\n\0]").search
_VALID_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch

_REASONS = {
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    206: "Partial Content",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Request Entity Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
"""The words that Go's servers use; clients ignore them, people do not."""


class RequestRejected(Exception):
    """A request that is answered without the application, and the connection closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def http1_head(method: str, target: str, headers: list[Header], version: str) -> Head:
    """Check what the parser found (RFC 9112) and make a head of it."""
    hosts = 0
    length: int | None = None
    is_chunked = False
    expects_continue = False
    for name, value in headers:
        if name == "host":
            hosts += 1
        elif name == "content-length":
            length = _content_length(value, length)
        elif name == "transfer-encoding":
            if is_chunked or value.lower() != "chunked":
                raise RequestRejected(501, "unsupported transfer encoding")
            is_chunked = True
        elif name == "expect":
            expects_continue = value.lower() == "100-continue"
    if is_chunked and (length is not None or version != "1.1"):
        # One of the two would be believed here and the other by a proxy: request smuggling.
        raise RequestRejected(400, "content-length and transfer-encoding")
    if hosts > 1:
        raise RequestRejected(400, "too many Host headers")
    if not hosts and version == "1.1":
        raise RequestRejected(400, "missing required Host header")
    return Head(method, _origin_form(method, target), headers, length, expects_continue)


def _content_length(value: str, known: int | None) -> int:
    try:
        return parse_content_length(value, known)
    except MalformedMessage as error:
        raise RequestRejected(400, str(error)) from None


def _origin_form(method: str, target: str) -> str:
    if target[:1] == "/" or (target == "*" and method == "OPTIONS"):
        return target
    if method == "CONNECT":
        raise RequestRejected(405, "no tunnels here")
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        raise RequestRejected(400, "malformed request target")
    slash = re.search(r"[/?]", rest)
    if slash is None:
        return "/"
    path = rest[slash.start() :]
    return path if path[0] == "/" else "/" + path


class HeadWriter:
    """Answers' heads as octets, with remembered lines; shared by a listener's connections."""

    __slots__ = ("_lines", "_statuses")

    max_lines = 4096

    def __init__(self) -> None:
        self._lines: dict[Header, bytes] = {}
        self._statuses: dict[int, bytes] = {}

    def status_line(self, status: int) -> bytes:
        octets = self._statuses.get(status)
        if octets is None:
            reason = _REASONS.get(status) or f"status code {status}"
            octets = self._statuses[status] = f"HTTP/1.1 {status} {reason}\r\n".encode()
        return octets

    def line(self, header: Header) -> bytes:
        octets = self._lines.get(header)
        if octets is None:
            if len(self._lines) >= self.max_lines:
                self._lines.clear()
            octets = self._lines[header] = self.once(header)
        return octets

    @staticmethod
    def once(header: Header) -> bytes:
        """A line that will hardly come again: it is not remembered."""
        name, value = header
        if _VALID_NAME(name) is None or _FORBIDDEN_IN_ANSWER(value):
            raise ValueError(f"header {name!r} cannot be sent")
        return f"{name}: {value}\r\n".encode("latin-1")
