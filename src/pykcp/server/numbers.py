"""Numbers in queries, parsed like Go, with its error messages. Pure.

Python's `int` takes more (blanks, underscores, other scripts' digits, any length).
"""

from __future__ import annotations

import re

from pykcp.machinery.status import go_quote

_SIGNED = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)
_MOST_DIGITS = 4000
"""Python refuses to convert longer texts; they are out of range anyway."""


class BadNumber(ValueError):
    """The message is that of Go's strconv."""


def int64(text: str) -> int:
    return _parse(text, "ParseInt", _SIGNED, -(1 << 63), (1 << 63) - 1)


def uint64(text: str) -> int:
    return _parse(text, "ParseUint", _UNSIGNED, 0, (1 << 64) - 1)


def _parse(text: str, function: str, form: re.Pattern[str], lowest: int, highest: int) -> int:
    if not form.fullmatch(text):
        raise BadNumber(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")
    if len(text) < _MOST_DIGITS and lowest <= (value := int(text)) <= highest:
        return value
    raise BadNumber(f"strconv.{function}: parsing {go_quote(text)}: value out of range")
