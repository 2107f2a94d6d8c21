"""`If-None-Match`: which versions of a document a client has (RFC 9110, section 13.1.2). Pure."""

from __future__ import annotations

import re

_MOST = 8 * 1024
_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


def is_known(header: str, tag: str) -> bool:
    """Whether a client has the version with this tag, given without quotes."""
    header = header[:_MOST].strip()
    return header == "*" or (tag in header and tag in _TAG.findall(header))
