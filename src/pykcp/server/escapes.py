"""Percent-escapes in paths and queries, decoded in one pass however many there are."""

from __future__ import annotations

import re
from urllib.parse import unquote

_BAD = re.compile(r"%(?![0-9A-Fa-f]{2})")


def has_bad(text: str) -> bool:
    """Whether there is a percent sign that two hexadecimal digits do not follow."""
    return "%" in text and _BAD.search(text) is not None


def decode(text: str) -> str:
    """The text without its escapes, as `unquote` has it; bad ones stay as they are."""
    if "%" not in text:
        return text
    if not text.isascii() or _BAD.search(text):
        return unquote(text)
    # The same octets in an encoding that the interpreter decodes natively.
    octets = text.replace("\\", "\\\\").replace("%", "\\x").encode("ascii")
    return octets.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
