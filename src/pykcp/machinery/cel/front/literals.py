"""Numbers and strings as they are written: what the characters of a token stand for."""

from __future__ import annotations

import re

from pykcp.machinery.cel.runtime.values import UINT_MAX


class LiteralError(Exception):
    """The token looks like a literal, but has no value."""


def integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if digits.startswith("0x"):
        return sign * int(digits, 16)
    digits = digits.lstrip("0")
    if len(digits) > 20:
        return sign * (UINT_MAX + 1)
    return sign * int(digits or "0")


def _body(text: str) -> tuple[str, bool]:
    """A string literal without its quotes, and whether it is a raw one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ("'''", '"""'):
        return text[3:-3], raw
    return text[1:-1], raw


_ESCAPED = re.compile(
    r"\\([abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_SIMPLE = {
    "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11,
    "\\": 92, "'": 39, '"': 34, "`": 96, "?": 63,
}  # fmt: skip


def _code(escape: str) -> int:
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    if escape[0] in "xXuU":
        return int(escape[1:], 16)
    return int(escape, 8)


def _unescape(found: re.Match[str]) -> str:
    code = _code(found.group(1))
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def unquote(text: str) -> str:
    """The text of a string literal."""
    body, raw = _body(text)
    return body if raw or "\\" not in body else _ESCAPED.sub(_unescape, body)


def unquote_bytes(text: str) -> bytes:
    """The bytes of a bytes literal, its b left out."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body.encode(errors="surrogatepass")
    out = bytearray()
    at = 0
    for found in _ESCAPED.finditer(body):
        out += body[at : found.start()].encode(errors="surrogatepass")
        at = found.end()
        code = found.group(1)
        if code[0] in "uU":
            raise LiteralError("unable to unescape string")
        out.append(_code(code))
    return bytes(out + body[at:].encode(errors="surrogatepass"))
