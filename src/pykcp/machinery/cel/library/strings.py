"""Strings: the standard functions, the extension library (version 2), regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery import regex
from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.library.templates import format_string
from pykcp.machinery.cel.runtime.operators import show
from pykcp.machinery.cel.runtime.values import CostExceeded, EvalError

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


MAX_LENGTH = 8 * 1024 * 1024
"""Characters of the longest string that a function makes: what is longer fills the memory."""


def _check_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise CostExceeded
    spend(length // 32)


def char_at(text: str, index: int) -> str:
    if index < 0 or index > len(text):
        raise EvalError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    return -1 if start >= len(text) else text.find(part, start)


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        if not part:
            return len(text)
        if len(text.encode(errors="replace")) < len(part.encode(errors="replace")):
            return -1
        start = len(text) - 1
    if not part:
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    if start >= len(text):
        return -1
    return text.rfind(part, 0, start + len(part))


def lower_ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(c.lower() if c.isascii() else c for c in text)


def upper_ascii(text: str) -> str:
    if text.isascii():
        return text.upper()
    return "".join(c.upper() if c.isascii() else c for c in text)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(new) > len(old):
        found = text.count(old) if count < 0 else min(text.count(old), count)
        _check_length(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count if count >= 0 else -1)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        if count < 0 or count >= len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, count - 1 if count > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    if start < 0 or start > len(text):
        raise EvalError(f"index out of range: {start}")
    if end is not None and (end < 0 or end > len(text)):
        raise EvalError(f"index out of range: {end}")
    return text[start:end]


def join(parts: list[Any], separator: str = "") -> str:
    spend(len(parts) // 8)
    for part in parts:
        if not isinstance(part, str):
            raise EvalError(f"join: invalid input: {show(part)}")
    _check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


_QUOTED = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
     "\\": "\\\\", '"': '\\"'}
)  # fmt: skip


def quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


MAX_REGEX_WORK = 20_000_000
"""Steps that one match may take: about a tenth of a second at worst."""
_STEPS = 200
"""Of them in a microsecond."""
_NEW_PATTERN = 50
"""What it takes to compile a small pattern."""


def matches(text: str, pattern: str) -> bool:
    return _compiled(pattern, text, "").test(text)


def find(text: str, pattern: str) -> str:
    return _compiled(pattern, text, "Illegal regex: ").find(text) or ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        found = _compiled(pattern, text, "Illegal regex: ").find_all(text, limit)
    except regex.TooMuchWork:
        raise CostExceeded from None
    spend(2 * len(found))
    return found


def _compiled(pattern: str, text: str, prefix: str) -> regex.Regex:
    is_new = not regex.is_known(pattern)
    try:
        found = regex.compiled(pattern)
    except regex.RegexError as error:
        spend(_NEW_PATTERN)
        raise EvalError(f"{prefix}{error}") from error
    steps = found.work(text)
    if steps > MAX_REGEX_WORK:
        raise CostExceeded
    spend((_NEW_PATTERN + found.size if is_new else 1) + steps // _STEPS)
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains_string": lambda text, part: part in text,
    "starts_with_string": str.startswith,
    "ends_with_string": str.endswith,
    "matches": matches,
    "matches_string": matches,
    "string_char_at_int": char_at,
    "string_index_of_string": index_of,
    "string_index_of_string_int": index_of,
    "string_last_index_of_string": last_index_of,
    "string_last_index_of_string_int": last_index_of,
    "string_lower_ascii": lower_ascii,
    "string_upper_ascii": upper_ascii,
    "string_replace_string_string": replace,
    "string_replace_string_string_int": replace,
    "string_split_string": split,
    "string_split_string_int": split,
    "string_substring_int": substring,
    "string_substring_int_int": substring,
    "string_trim": lambda text: text.strip(_SPACE),
    "list_join": join,
    "list_join_string": join,
    "strings_quote": quote,
    "string_format": format_string,
    "string_find_string": find,
    "string_find_all_string": find_all,
    "string_find_all_string_int": find_all,
}
