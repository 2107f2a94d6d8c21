"""URLs, read as Go's net/url reads an absolute one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.values import EvalError
from pykcp.machinery.status import go_quote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_OK = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,;=:[]<>\""
)
_PATH_OK = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+/:;=@")
_VALID_ENCODED = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*")
_USER_OK = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")


class CelURLError(Exception):
    """The text is no URL; the message is Go's."""


class CelURL:
    __slots__ = ("host", "path", "query", "raw_path", "scheme", "text")
    cel_type = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        self.text = text
        self.scheme, rest = _split_scheme(text)
        rest, _, self.query = rest.partition("?")
        self.host = ""
        if not rest.startswith("/"):
            if not self.scheme:
                raise CelURLError("invalid URI for request")
            rest = ""  # what follows the scheme has no parts
        if rest.startswith("//") and (self.scheme or not rest.startswith("///")):
            authority, slash, path = rest[2:].partition("/")
            self.host = _parse_authority(authority)
            rest = slash + path
        self.raw_path = rest
        self.path = _unescape(rest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelURL) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def hostname(self) -> str:
        host, _ = _split_port(self.host)
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def port(self) -> str:
        return _split_port(self.host)[1]

    def escaped_path(self) -> str:
        if self.raw_path and _VALID_ENCODED.fullmatch(self.raw_path):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path)

    def query_values(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                key, value = (_unescape(p.replace("+", " ")) for p in (key, value))
            except CelURLError:
                continue
            out.setdefault(key, []).append(value)
        return out


def parse_url(text: str) -> CelURL:
    """The URL of a request; raises URLError with the whole of Go's message."""
    try:
        _check_whole(text)
        return CelURL(text)
    except CelURLError as error:
        raise CelURLError(f"parse {go_quote(text)}: {error}") from error


def _check_whole(text: str) -> None:
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise CelURLError("net/url: invalid control character in URL")
    if not text:
        raise CelURLError("empty url")
    if text == "*":
        raise CelURLError("invalid URI for request")


def _split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    if found is not None and text[found.end() :].startswith(":"):
        return found.group().lower(), text[found.end() + 1 :]
    if text.startswith(":"):
        raise CelURLError("missing protocol scheme")
    return "", text


def _parse_authority(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at:
        if not _USER_OK.fullmatch(user):
            raise CelURLError("net/url: invalid userinfo")
        _unescape(user)
    return _parse_host(host)


def _parse_host(host: str) -> str:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise CelURLError("missing ']' in host")
        _check_port(host[end + 1 :])
    else:
        colon = host.rfind(":")
        if colon >= 0:
            _check_port(host[colon:])
    for found in _ESCAPE.finditer(host):
        # in a host only non-ASCII bytes may be escaped, besides a zone's %25
        if int(found.group(1), 16) < 0x80 and found.group() != "%25":
            raise CelURLError(f"invalid URL escape {go_quote(found.group())}")
    for c in host:
        if ord(c) < 0x80 and c not in _HOST_OK and c != "%":
            raise CelURLError(f"invalid character {go_quote(c)} in host name")
    return _unescape(host)


def _check_port(port: str) -> None:
    if port and not re.fullmatch(r":[0-9]*", port):
        raise CelURLError(f"invalid port {go_quote(port)} after host")


def _split_port(host: str) -> tuple[str, str]:
    colon = host.rfind(":")
    if colon >= 0 and re.fullmatch(r":[0-9]*", host[colon:]):
        return host[:colon], host[colon + 1 :]
    return host, ""


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        raise CelURLError(f"invalid URL escape {go_quote(bad.group())}")
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())
    return raw.decode(errors="replace")


def _escape(path: str) -> str:
    return "".join(
        chr(b) if b < 0x80 and chr(b) in _PATH_OK else f"%{b:02X}" for b in path.encode()
    )


def _to_url(text: str) -> CelURL:
    try:
        return parse_url(text)
    except CelURLError as error:
        raise EvalError(f"URL parse error during conversion from string: {error}") from error


def _is_url(text: str) -> bool:
    spend(len(text))
    try:
        parse_url(text)
    except CelURLError:
        return False
    return True


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_url": _to_url,
    "is_url_string": _is_url,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": CelURL.hostname,
    "url_get_port": CelURL.port,
    "url_get_escaped_path": CelURL.escaped_path,
    "url_get_query": CelURL.query_values,
}
