"""JSONPath templates as `kubectl -o jsonpath` takes them: text with actions in braces.

`{range .items[*]}{.metadata.name}{"\\n"}{end}`. What stands inside the braces is a path as
printer columns have it (`schema.jsonpath`); this module adds the text around, and ranges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pykcp.machinery.schema import jsonpath as paths
from pykcp.machinery.schema.jsonpath import Path, PathError, Values, text_of

_ACTION = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^}"'])*)(\}?)""", re.DOTALL)
_RANGE = re.compile(r"\s*range(?=[\s.\[@$])")


class JSONPathError(ValueError):
    """A template that cannot be parsed, or cannot be applied to the value at hand."""


@dataclass(frozen=True, slots=True)
class Range:
    """Everything up to `{end}`, once for each value found."""

    over: Path
    body: tuple[Part, ...]


Part = str | Path | Range


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """A parsed template."""

    parts: tuple[Part, ...]

    def find(self, data: Any) -> list[Values]:
        """The values of each text and action in turn; raises JSONPathError."""
        try:
            return _results(self.parts, data)
        except PathError as error:
            raise JSONPathError(str(error)) from None

    def first(self, data: Any) -> Any:
        """The first value of the first part; None if there is none or it cannot be had."""
        try:
            found = self.find(data)
        except JSONPathError:
            return None
        return found[0][0] if found and found[0] else None

    def render(self, data: Any) -> str:
        """The text the template makes of an object; missing keys leave nothing behind."""
        return "".join(" ".join(map(text_of, values)) for values in self.find(data))


def _results(parts: Sequence[Part], data: Any) -> list[Values]:
    results: list[Values] = []
    for part in parts:
        if isinstance(part, str):
            results.append([part])
        elif isinstance(part, Range):
            for value in paths.find(part.over, data):
                results += _results(part.body, value)
        else:
            results.append(paths.find(part, data))
    return results


@lru_cache(maxsize=64)
def parse(text: str) -> JsonPathTemplate:
    """A template; raises JSONPathError in upstream's words."""
    open_ranges: list[tuple[Path, list[Part]]] = []
    parts: list[Part] = []
    position = 0
    for action in _ACTION.finditer(text):
        if action.start() > position:
            parts.append(text[position : action.start()])
        position = action.end()
        inside, closed = action.groups()
        if not closed:
            raise JSONPathError("unclosed action")
        begin = _RANGE.match(inside)
        if begin:
            open_ranges.append((_path(inside[begin.end() :]), parts))
            parts = []
        elif inside.strip() == "end":
            if not open_ranges:
                raise JSONPathError("not in range, nothing to end")
            over, outer = open_ranges.pop()
            outer.append(Range(over, tuple(parts)))
            parts = outer
        else:
            parts.append(_path(inside))
    if position < len(text):
        parts.append(text[position:])
    while open_ranges:  # a range that is not ended reaches to the end of the text
        over, outer = open_ranges.pop()
        outer.append(Range(over, tuple(parts)))
        parts = outer
    return JsonPathTemplate(tuple(parts))


def _path(text: str) -> Path:
    try:
        return paths.parse(text)
    except PathError as error:
        raise JSONPathError(str(error)) from None
