"""URL parsing like Go's net/url, with its error messages.

Webhook addresses are judged by it, and its words are shown to users.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from pykcp.machinery.status import go_quote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_BAD_HOST = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")


class GoURLError(ValueError):
    """A text that is no URL; the message is Go's."""


class GoURL(NamedTuple):
    scheme: str
    user: str | None
    """User information as it would be printed; None if there is none."""
    host: str
    path: str
    query: str
    fragment: str


def parse(text: str) -> GoURL:
    """Raises URLError."""
    try:
        return _parse(text)
    except GoURLError as error:
        raise GoURLError(f"parse {go_quote(text)}: {error}") from None


def _parse(text: str) -> GoURL:
    if any(ch < " " or ch == "\x7f" for ch in text):
        raise GoURLError("net/url: invalid control character in URL")
    rest, _, fragment = text.partition("#")
    scheme, rest = _split_scheme(rest)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return GoURL(scheme, None, "", "", query, fragment)  # opaque, like mailto:x
        if ":" in rest.split("/", 1)[0]:
            raise GoURLError("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        user, host = _split_authority(authority)
        rest = slash + path
    _check_escapes(rest)
    return GoURL(scheme, user, host, rest, query, fragment)


def _split_scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise GoURLError("missing protocol scheme")
    match = _SCHEME.match(text)
    if match and text[match.end() : match.end() + 1] == ":":
        return match[0].lower(), text[match.end() + 1 :]
    return "", text


def _split_authority(authority: str) -> tuple[str | None, str]:
    info, at, host = authority.rpartition("@")
    _check_host(host)
    if not at:
        return None, host
    _check_escapes(info)
    name, colon, password = info.partition(":")
    shown = quote(unquote(name), safe="$&+,;=!*'()~")
    if colon:
        shown += ":" + quote(unquote(password), safe="$&+,;=!*'()~")
    return shown, host


def _check_host(host: str) -> None:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise GoURLError("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
    if port and not re.fullmatch(r":[0-9]*", port):
        raise GoURLError(f"invalid port {go_quote(port)} after host")
    bad = _BAD_HOST.search(host)
    if bad:
        raise GoURLError(f"invalid character {go_quote(bad[0])} in host name")
    escape = re.search(r"%.{0,2}", host)
    if escape:
        raise GoURLError(f"invalid URL escape {go_quote(escape[0])}")


def _check_escapes(text: str) -> None:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise GoURLError(f"invalid URL escape {go_quote('%' + bad[1])}")
