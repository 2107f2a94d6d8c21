"""The head of a request, checked: what both protocols make of the header fields.

`MalformedMessage` means that the message breaks HTTP itself and must not reach the
application, whatever it looks like.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykcp.wire.http2.hpack import Field, is_valid_field


class MalformedMessage(ValueError):
    """The message is not HTTP."""


class Head:
    """A request without its body.  Equal header blocks may share one head: never change it."""

    __slots__ = (
        "_first",
        "content_length",
        "expects_continue",
        "headers",
        "method",
        "path",
        "query",
    )

    def __init__(
        self,
        method: str,
        target: str,
        headers: Sequence[Field],
        content_length: int | None = None,
        expects_continue: bool = False,
    ) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.content_length = content_length
        self.expects_continue = expects_continue
        self._first: dict[str, str] | None = None

    def first(self, name: str) -> str | None:
        """The first value of a header."""
        first = self._first
        if first is None:
            first = self._first = dict(reversed(self.headers))
        return first.get(name)

    def with_target(self, target: str) -> Head:
        """The same fields, asking for something else."""
        head = Head(self.method, target, self.headers, self.content_length, self.expects_continue)
        head._first = self._first
        return head


_METHOD, _PATH, _SCHEME, _AUTHORITY, _FORBIDDEN, _TE, _LENGTH, _EXPECT, _COOKIE, _HOST = range(10)
_SPECIAL = {
    ":method": _METHOD,
    ":path": _PATH,
    ":scheme": _SCHEME,
    ":authority": _AUTHORITY,
    ":protocol": _FORBIDDEN,  # extended CONNECT is not offered
    ":status": _FORBIDDEN,
    "connection": _FORBIDDEN,
    "proxy-connection": _FORBIDDEN,
    "keep-alive": _FORBIDDEN,
    "transfer-encoding": _FORBIDDEN,
    "upgrade": _FORBIDDEN,
    "te": _TE,
    "content-length": _LENGTH,
    "expect": _EXPECT,
    "cookie": _COOKIE,
    "host": _HOST,
}


def http2_head(fields: Iterable[Field], check_each: bool = False) -> Head:
    """Check a decoded header list (RFC 9113, section 8) and make a head of it."""
    pseudo: list[str | None] = [None, None, None, None]
    headers: list[Field] = []
    length: int | None = None
    expects_continue = False
    cookies = 0
    has_host = False
    if check_each:
        check_fields(fields)
    for field in fields:
        special = _SPECIAL.get(field[0])
        if special is None:
            headers.append(field)
            continue
        value = field[1]
        if special <= _AUTHORITY:
            if headers or pseudo[special] is not None:
                raise MalformedMessage("pseudo-header twice, or after a header")
            pseudo[special] = value
            continue
        if special == _LENGTH:
            length = parse_content_length(value, length)
        elif special == _EXPECT:
            expects_continue = value.lower() == "100-continue"
        elif special == _COOKIE:
            cookies += 1
        elif special == _HOST:
            has_host = True
        elif special == _FORBIDDEN or value != "trailers":
            raise MalformedMessage("header that has no place in HTTP/2")
        headers.append(field)
    method, path, scheme, authority = pseudo
    if not method or not path or not scheme:
        raise MalformedMessage("pseudo-header missing")
    if path[0] != "/" and not (path == "*" and method == "OPTIONS"):
        raise MalformedMessage("path is not absolute")
    if authority and not has_host:
        headers.append(("host", authority))
    if cookies > 1:
        headers = _with_one_cookie(headers)
    return Head(method, path, headers, length, expects_continue)


_MOST_REMEMBERED = 64
"""Fields of a head that is remembered."""


class RequestHeads:
    """Makes the heads of one connection's requests.

    Most of them differ from the one before in their path only: the rest is not checked again.
    """

    __slots__ = ("_after", "_before", "_last", "_path_at")

    def __init__(self) -> None:
        self._last: Head | None = None
        self._path_at = 0
        self._before: list[Field] = []
        self._after: list[Field] = []

    def make(self, fields: list[Field], check_each: bool = False) -> Head:
        """The same as `http2_head`."""
        last, at = self._last, self._path_at
        if last is not None and not check_each and at < len(fields):
            name, target = fields[at]
            if (
                name == ":path"
                and target[:1] == "/"
                and fields[:at] == self._before
                and fields[at + 1 :] == self._after
            ):
                return last.with_target(target)
        head = http2_head(fields, check_each)
        if len(fields) <= _MOST_REMEMBERED:
            at = self._path_at = [name for name, _ in fields].index(":path")
            self._before, self._after, self._last = fields[:at], fields[at + 1 :], head
        return head


class ResponseHead:
    """An answer without its body. Equal header blocks may share one head: never change it."""

    __slots__ = ("content_length", "headers", "status")

    def __init__(self, status: int, headers: Sequence[Field], content_length: int | None) -> None:
        self.status = status
        self.headers = headers
        self.content_length = content_length


def http2_response_head(fields: Sequence[Field], check_each: bool = False) -> ResponseHead:
    """Check a decoded header list of an answer (RFC 9113, section 8) and make a head of it."""
    if check_each:
        check_fields(fields)
    if not fields or fields[0][0] != ":status":
        raise MalformedMessage("answer without a status")
    status, headers = fields[0][1], fields[1:]
    if len(status) != 3 or not (status.isascii() and status.isdigit()) or status[0] == "0":
        raise MalformedMessage("bad status")
    length: int | None = None
    for name, value in headers:
        if name[0] == ":" or _SPECIAL.get(name) == _FORBIDDEN:
            raise MalformedMessage("header that has no place in HTTP/2")
        if name == "content-length":
            length = parse_content_length(value, length)
    if status == "101":
        raise MalformedMessage("HTTP/2 has no upgrades")
    return ResponseHead(int(status), headers, length)


def check_trailers(fields: Iterable[Field]) -> None:
    """Trailers are checked and thrown away: nothing here needs them."""
    check_fields(fields)
    for name, _ in fields:
        if name[0] == ":" or _SPECIAL.get(name) == _FORBIDDEN:
            raise MalformedMessage("trailer that may not be one")


def check_fields(fields: Iterable[Field]) -> None:
    for name, value in fields:
        if not is_valid_field(name, value):
            raise MalformedMessage("invalid header field")


def parse_content_length(value: str, known: int | None) -> int:
    """The announced length; repeating it is allowed as long as it is the same."""
    # isdigit() alone would let other scripts' digits through.
    if not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise MalformedMessage("bad content-length")
    length = int(value)
    if known is not None and known != length:
        raise MalformedMessage("two content-lengths")
    return length


def _with_one_cookie(headers: list[Field]) -> list[Field]:
    """HTTP/2 lets a client split its cookie; everyone behind us expects one."""
    cookie = "; ".join(value for name, value in headers if name == "cookie")
    return [*(field for field in headers if field[0] != "cookie"), ("cookie", cookie)]
