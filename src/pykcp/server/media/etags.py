"""`If-Match`, `If-None-Match` and `If-Range`: versions of a document (RFC 9110, section 13). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_MOST = 8 * 1024
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')

Header = Callable[[str], str | None]
"""The value of a request's header."""


def refusal(header: Header, tag: str) -> int:
    """412 or 304 if the client does not want the version with this tag, given without quotes; else 0."""
    wanted = header("if-match")
    if wanted and not _names(wanted, tag, is_strong=True):
        return 412
    return 304 if is_known(header("if-none-match") or "", tag) else 0


def is_known(header: str, tag: str) -> bool:
    """Whether a client that sends this `If-None-Match` has the version."""
    return _names(header, tag)


def may_send_part(header: Header, tag: str) -> bool:
    """Whether a part of this version completes what the client has."""
    wanted = header("if-range")
    return not wanted or wanted.strip() == f'"{tag}"'


def _names(header: str, tag: str, *, is_strong: bool = False) -> bool:
    header = header[:_MOST].strip()
    if header == "*":
        return True
    if tag not in header:
        return False
    return any(found == tag and not (weak and is_strong) for weak, found in _TAG.findall(header))
