"""JSONPath in kubectl's dialect, for printer columns of custom resources.

`parse` turns a path into a list of steps; `find` walks them over an object. Missing
keys are no error and find nothing; indexes out of bounds and filters over something
that is no list raise `PathError`, which for a column means an empty cell.

Known deviation: upstream keeps slice bounds from one evaluation to the next; we do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import orjson

from pykcp.machinery.patch.gotext import show_float

Values: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Values], Values]
Path: TypeAlias = tuple[Step, ...]

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_DICT_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)


class PathError(ValueError):
    """The path cannot be read, or not be followed in this object."""


def parse(text: str) -> Path:
    """A path such as `.status.conditions[?(@.type=="Ready")].status`, without braces."""
    return tuple(_Parser(text).steps())


def find(path: Path, obj: Any) -> Values:
    """All values that the path leads to."""
    values: Values = [obj]
    for step in path:
        values = step(values)
    return values


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def steps(self) -> Iterator[Step]:
        recursive = False
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if rest.startswith("[?("):
                yield self._filter()
                recursive = False
            elif rest.startswith(".."):
                if recursive:
                    raise PathError("invalid multiple recursive descent")
                self.at += 2
                yield _descend
                recursive = True
                if self.at < len(self.text) and _is_word(self.text[self.at]):
                    yield self._field()
                    recursive = False
            else:
                step = self._single(rest[0])
                if step is not None:
                    recursive = False
                    yield step

    def _single(self, char: str) -> Step | None:
        if char in " @$":
            self.at += 1
            return None
        if char == "[":
            return self._array()
        if char in "\"'":
            return _constant(self._quoted(char))
        if char == ".":
            self.at += 1
            return self._field()
        if char in "+-" or char.isdigit():
            return _constant(self._number())
        if _is_word(char):
            word = self._until_terminator()
            if word in {"true", "false"}:
                return _constant(word == "true")
            raise PathError(f"unrecognized identifier {word}")
        raise PathError(f"unrecognized character in action: {char!r}")

    def _until_terminator(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _TERMINATORS:
            self.at += 2 if self.text[self.at] == "\\" else 1
        return self.text[start : self.at]

    def _field(self) -> Step:
        name = self._until_terminator()
        return _children if name == "*" else _key(name.replace("\\", ""))

    def _number(self) -> float:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and (
            self.text[self.at].isdigit() or self.text[self.at] == "."
        ):
            self.at += 1
        text = self.text[start : self.at]
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            raise PathError(f"cannot parse number {text}") from None

    def _quoted(self, quote: str) -> str:
        start = self.at
        self.at += 1
        while self.at < len(self.text):
            if self.text[self.at] == quote and self.text[self.at - 1] != "\\":
                self.at += 1
                return _unquote(self.text[start + 1 : self.at - 1])
            self.at += 1
        raise PathError("unterminated quoted string")

    def _array(self) -> Step:
        end = self.text.find("]", self.at)
        if end < 0:
            raise PathError("unterminated array")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        if "," in inside:
            return _union([parse(f"[{part.strip(' ')}]") for part in inside.split(",")])
        key = _DICT_KEY.fullmatch(inside)
        if key:
            return _sequence(parse(f".{key.group(1)}"))
        return _slice(":" if inside == "*" else inside)

    def _filter(self) -> Step:
        self.at += 3
        start, quote = self.at, ""
        closed = False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "\"'":
                if not quote:
                    quote = char
                elif char == quote and self.text[self.at - 1] != "\\":
                    closed = True
            elif char == ")" and bool(quote) is closed:
                break
            self.at += 1
        else:
            raise PathError("unterminated filter")
        inside = self.text[start : self.at]
        if self.text[self.at + 1 : self.at + 2] != "]":
            raise PathError("unclosed array expect ]")
        self.at += 2
        comparison = _COMPARISON.fullmatch(inside)
        if comparison is None:
            return _existing(parse(inside))
        left, operator, right = comparison.groups()
        return _compared(parse(left), operator, parse(right))


def _is_word(char: str) -> bool:
    return char == "_" or char.isalpha() or char.isdigit()


_QUOTE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _QUOTE_ESCAPES.get(m.group(1), m.group(0)), text)


def _constant(value: Any) -> Step:
    return lambda values: [value for _ in values]


def _sequence(path: Path) -> Step:
    def step(values: Values) -> Values:
        for part in path:
            values = part(values)
        return values

    return step


def _key(name: str) -> Step:
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _children(values: Values) -> Values:
    found: Values = []
    for value in values:
        if isinstance(value, dict):
            found += (value[key] for key in sorted(value))
        elif isinstance(value, list):
            found += value
    return found


def _descend(values: Values) -> Values:
    found: Values = []
    for value in values:
        children = _children([value])
        if children:
            found.append(value)
            found += _descend(children)
    return found


def _union(paths: list[Path]) -> Step:
    return lambda values: [v for path in paths for v in _sequence(path)(values)]


def _slice(text: str) -> Step:
    bounds = _SLICE.fullmatch(text)
    if bounds is None:
        raise PathError(f"invalid array index {text}")
    first, last, step = (None if not g or g == ":" else int(g.lstrip(":")) for g in bounds.groups())
    single = bounds.group(2) is None

    def take(values: Values) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise PathError("not a list")
            found += _part_of(value, first or 0, last, single=single)[:: _positive(step)]
        return found

    return take


def _positive(step: int | None) -> int:
    if step is not None and step <= 0:
        raise PathError("step must be > 0")
    return step or 1


def _part_of(value: Values, first: int, last: int | None, *, single: bool) -> Values:
    length = len(value)
    if single:
        last = first + 1
        if last == 0:
            last = length
    start = first + length if first < 0 else first
    end = length if last is None else last + length if last < 0 else last
    if start == end:
        return []
    if not (0 <= start < length) or end > length or start > end:
        raise PathError(f"array index out of bounds: index {start}, length {length}")
    return value[start:end]


def _items_of(values: Values) -> Iterator[Any]:
    for value in values:
        if not isinstance(value, list):
            raise PathError("not a list and cannot be filtered")
        yield from value


def _existing(path: Path) -> Step:
    return lambda values: [item for item in _items_of(values) if _exists(path, item)]


def _exists(path: Path, item: Any) -> bool:
    try:
        return bool(find(path, item))
    except PathError:
        return False


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _compared(left: Path, operator: str, right: Path) -> Step:
    compare = _OPERATORS.get(operator)
    if compare is None:
        raise PathError(f"unrecognized filter operator {operator}")

    def step(values: Values) -> Values:
        found: Values = []
        for item in _items_of(values):
            ours, theirs = find(left, item), find(right, item)
            if not ours or not theirs:
                continue
            if len(ours) > 1 or len(theirs) > 1:
                raise PathError("can only compare one element at a time")
            if _comparable(ours[0], theirs[0]) and compare(ours[0], theirs[0]):
                found.append(item)
        return found

    return step


def _comparable(left: Any, right: Any) -> bool:
    """Go compares only like with like."""
    numbers = (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        alike = isinstance(left, bool) and isinstance(right, bool)
    elif isinstance(left, numbers):
        alike = isinstance(right, numbers)
    else:
        alike = isinstance(left, str) and isinstance(right, str)
    if not alike:
        raise PathError("incompatible types for comparison")
    return True


def text_of(value: Any) -> str:
    """A found value as kubectl's JSONPath prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if isinstance(value, list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if isinstance(value, float):
        return show_float(value)
    return str(value)
