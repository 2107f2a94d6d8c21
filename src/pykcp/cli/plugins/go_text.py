"""Text as Go's formatting makes it: quoted strings, tab-aligned columns, durations."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ESCAPES |= {"\v": r"\v", "\\": r"\\", '"': r"\""}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def quote(text: str) -> str:
    """`%q`: in double quotes, with what cannot be seen escaped."""
    return '"' + "".join(_quoted(character) for character in text) + '"'


def _quoted(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def bracketed(items: Sequence[object]) -> str:
    """`%v` of a list."""
    return "[" + " ".join(str(item) for item in items) + "]"


def parse_duration(text: str) -> float:
    """Seconds; ValueError with Go's words."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    parts = _DURATION.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        if re.fullmatch(r"(\d+\.?\d*|\.\d+)", body):
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        raise ValueError(f"time: invalid duration {quote(text)}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return -seconds if text.startswith("-") else float(seconds)


def columns(lines: Sequence[str], *, padding: int, least: int = 0) -> list[str]:
    """Lines with tabs, aligned as Go's tabwriter does it.

    A cell is what a tab ends; the text after the last tab belongs to no column. A column is a run
    of lines that have a cell there, so a line without tabs ends all columns above it.
    """
    rows = [line.split("\t") for line in lines]
    _align(rows, 0, len(rows), 0, padding, least)
    return ["".join(row) for row in rows]


def _align(
    rows: list[list[str]], first: int, end: int, column: int, padding: int, least: int
) -> None:
    index = first
    while index < end:
        if len(rows[index]) - 1 <= column:
            index += 1
            continue
        stop = index
        while stop < end and len(rows[stop]) - 1 > column:
            stop += 1
        longest = max(len(row[column]) for row in rows[index:stop])
        # a column in which nothing stands takes no room
        width = max(longest + padding, least) if longest else 0
        _align(rows, index, stop, column + 1, padding, least)
        for row in rows[index:stop]:
            row[column] = row[column].ljust(width)
        index = stop
