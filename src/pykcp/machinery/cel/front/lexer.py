"""Text to tokens.

The rules are those of CEL's grammar. A piece that is no token is reported the way
the reference lexer does it: with everything that was read before it gave up.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykcp.machinery.cel.front.source import Issues

EOF = "<EOF>"


class Token(NamedTuple):
    """`kind` is the operator itself, or IDENT, ESC_IDENT, INT, UINT, FLOAT, STRING, BYTES, EOF."""

    kind: str
    text: str
    offset: int
    hidden: str = ""
    """White space and comments in front of it; some messages quote them."""


_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_STRING = (
    rf'[rR]"""(?s:.*?)"""|[rR]\'\'\'(?s:.*?)\'\'\''
    rf'|[rR]"[^"\n\r]*"|[rR]\'[^\'\n\r]*\''
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\''
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"|\'(?:{_ESCAPE}|[^\\\'\n\r])*\''
)
_TOKEN = re.compile(
    r"(?P<SKIP>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB](?:{_STRING}))"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<IDENT>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<OP>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
    r"|(?P<ESC_IDENT>`[A-Za-z0-9_.\-/ ]+`)"
)
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_PARTIAL = {
    "'": re.compile(rf"'(?:{_ESCAPE}|[^\\'\n\r])*"),
    '"': re.compile(rf'"(?:{_ESCAPE}|[^\\"\n\r])*'),
    "`": re.compile(r"`[A-Za-z0-9_.\-/ ]*"),
    "=": re.compile("="),
    "&": re.compile("&"),
    "|": re.compile(r"\|"),
}
_PARTIAL_ESCAPE = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{0,1}|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
)


def tokenize(text: str, issues: Issues) -> list[Token]:
    """All tokens, the last one EOF; complaints go to `issues`."""
    out: list[Token] = []
    hidden = ""
    position, end = 0, len(text)
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            position = _complain(text, position, issues)
            continue
        kind, value = found.lastgroup, found.group()
        assert kind is not None
        if kind == "SKIP":
            hidden += value
        else:
            if kind == "OP" or (kind == "IDENT" and value in _KEYWORDS):
                kind = value
            out.append(Token(kind, value, position, hidden))
            hidden = ""
        position = found.end()
    out.append(Token(EOF, EOF, end, hidden))
    return out


def _complain(text: str, start: int, issues: Issues) -> int:
    """Reports the piece that is no token and returns where to go on."""
    partial = _PARTIAL.get(text[start])
    at = start
    if partial is not None:
        found = partial.match(text, start)
        assert found is not None
        at = found.end()
        if text[start] in "'\"" and text.startswith("\\", at):
            escape = _PARTIAL_ESCAPE.match(text, at)
            assert escape is not None
            at = escape.end()
    piece = text[start : at + 1]
    issues.report(start, f"Syntax error: token recognition error at: '{piece}'")
    return at + 1
