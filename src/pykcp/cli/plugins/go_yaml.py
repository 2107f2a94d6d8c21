"""YAML as Go's Kubernetes programs write it, so that files they share do not change needlessly.

Keys are sorted the way Go's encoder sorts them (numbers inside names count as numbers), texts of
several lines are literal blocks, texts that could be mistaken for something else are in double
quotes, long lines are folded at 80.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

_WORDS = frozenset(
    word
    for base in ("y", "yes", "true", "on", "n", "no", "false", "off", "null")
    for word in (base, base.capitalize(), base.upper())
) | {"", "~", "<<", ".nan", ".NaN", ".NAN"}
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?0[xX][0-9a-fA-F]+|[-+]?0[oO]?[0-7]+|[-+]?0[bB][01]+"
)
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIME = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}"
    r"(?:[Tt ]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?(?:Z|[-+]\d{2}:\d{2})?)?"
)
_WIDTH = 80


def dump(value: Any) -> str:
    """One document."""
    import yaml

    dumper: Any = getattr(yaml, "CDumper", yaml.Dumper)
    text: str = yaml.emit(_document(value), Dumper=dumper, width=_WIDTH, allow_unicode=True)
    return text


def looks_like_no_text(text: str) -> bool:
    """Whether a plain scalar with this text would be read as something other than a string."""
    plain = text.replace("_", "") if text[:1].isdigit() or text[:1] in "+-" else text
    return (
        text in _WORDS
        or _NUMBER.fullmatch(plain) is not None
        or _INFINITY.fullmatch(text) is not None
        or _SIXTIES.fullmatch(text) is not None
        or _TIME.fullmatch(text) is not None
    )


def sorted_keys(names: Any) -> list[str]:
    return sorted(names, key=functools.cmp_to_key(_compare))


def _compare(one: str, other: str) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            if a.isalpha() and b.isalpha():
                return -1 if a < b else 1
            return -1 if b.isalpha() else 1
        return _compare_numbers(one, other, index)
    return len(one) - len(other)


def _compare_numbers(one: str, other: str, index: int) -> int:
    """Two names that differ from here on, where neither has a letter."""
    first, second = _digits(one, index), _digits(other, index)
    lead = "1" if "0" in (one[index], other[index]) and _inside_number(one, index) else ""
    a, b = int(lead + first or "0"), int(lead + second or "0")
    if a != b:
        return a - b
    if len(first) != len(second):
        return len(first) - len(second)
    return -1 if one[index] < other[index] else 1


def _digits(text: str, index: int) -> str:
    end = index
    while end < len(text) and text[end].isdigit():
        end += 1
    return text[index:end]


def _inside_number(text: str, index: int) -> bool:
    """Whether a digit other than 0 stands in front, in the same number."""
    while index > 0 and text[index - 1].isdigit():
        index -= 1
        if text[index] != "0":
            return True
    return False


def _document(value: Any) -> Iterator[Any]:
    from yaml import events

    yield events.StreamStartEvent()
    yield events.DocumentStartEvent(explicit=False)
    yield from _events(value)
    yield events.DocumentEndEvent(explicit=False)
    yield events.StreamEndEvent()


def _events(value: Any) -> Iterator[Any]:
    from yaml import events

    if isinstance(value, dict):
        yield events.MappingStartEvent(None, None, True, flow_style=not value)
        for key in sorted_keys(value):
            yield _scalar(key)
            yield from _events(value[key])
        yield events.MappingEndEvent()
    elif isinstance(value, list):
        yield events.SequenceStartEvent(None, None, True, flow_style=not value)
        for item in value:
            yield from _events(item)
        yield events.SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: Any) -> Any:
    from yaml import events

    style = None
    if value is None:
        text = "null"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = value
        if "\n" in text:
            style = "|"
        elif looks_like_no_text(text):
            style = '"'
    else:
        text = number(value)
    return events.ScalarEvent(None, None, (True, True), text, style=style)


def number(value: float) -> str:
    """A number as Go writes it: whole ones without a point, `1e+06` rather than `1000000.0`."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}" if e else text
