"""Path elements: one step down in an object, as text.

An element is a letter, a colon and its content: `f:` a field's name, `k:` the keys of a
list item as a JSON object with sorted names, `v:` a scalar of a set as JSON, `i:` an
index. Two elements are the same exactly if their canonical texts are, which is what makes
sets of fields plain dicts (`fieldset`). The order of elements is that of their values, not
of their texts: 9 comes before 10, and "a" before "a!".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any

import orjson

from pykcp.machinery.patch import gotext
from pykcp.types import JSON


class BadElement(ValueError):
    """The text is no path element."""


_ESCAPED = re.compile('["\\\\<>&\x00-\x1f\u2028\u2029]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def scalar_text(value: JSON) -> str:
    """A value as JSON inside an element: HTML escaped, whole floats as integers."""
    kind = type(value)
    if kind is str:
        if _ESCAPED.search(value) is None:
            return f'"{value}"'
        return '"' + _ESCAPED.sub(_escape, value) + '"'
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return _float_text(value)
    if value is None:
        return "null"
    if kind is dict:
        pairs = (f"{scalar_text(k)}:{scalar_text(value[k])}" for k in sorted(value))
        return "{" + ",".join(pairs) + "}"
    return "[" + ",".join(scalar_text(item) for item in value) + "]"


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def _float_text(value: float) -> str:
    size = abs(value)
    if size < 1e21 and value == int(value):
        return str(int(value))
    if 1e-6 <= size < 1e21:
        text = repr(value)
        return text if "e" not in text else f"{value:.20f}".rstrip("0")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"


def name_text(name: str) -> str:
    """The name of a key field inside an element."""
    return orjson.dumps(name).decode()


def key_element(keys: Iterable[tuple[str, JSON]]) -> str:
    """The element of a list item with these key fields, sorted by name."""
    return "k:{" + ",".join(f"{name_text(n)}:{scalar_text(v)}" for n, v in keys) + "}"


def canonical_element(element: str) -> str | None:
    """The canonical text of an element; None if its kind is unknown."""
    if len(element) < 2:
        raise BadElement("key must be 2 characters long:")
    if element[1] != ":":
        raise BadElement(f"missing colon: {element}")
    match element[0]:
        case "f":
            return element
        case "v":
            return "v:" + scalar_text(_content(element))
        case "k":
            content = _content(element)
            if content is None:
                content = {}
            if not isinstance(content, dict):
                raise BadElement("expect { or n")
            return key_element(sorted(content.items()))
        case "i":
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", element[2:]):
                raise BadElement(f"bad index: {element}")
            return f"i:{int(element[2:])}"
    return None


def _content(element: str) -> JSON:
    try:
        return orjson.loads(element[2:])
    except orjson.JSONDecodeError as error:
        raise BadElement(element) from error


# -- order


def in_order(elements: Iterable[str]) -> list[str]:
    """Elements as they stand in a set: fields, keys, values, indexes."""
    order = sorted(elements)
    if order and order[-1] > "g" and len(order) > 1:
        order.sort(key=_text_key if _have_plain_texts(order) else _element_key)
    return order


_PLAIN = re.compile(r'(?:\.|[kv]:(?:\{"[^"\\]*":)?"[^"\\]*"\}?)\Z')


def _have_plain_texts(order: list[str]) -> bool:
    """Whether elements can be sorted by their text: strings only, under one name."""
    if not all(map(_PLAIN.match, order)):
        return False
    heads = {element.partition(":")[2].partition(":")[0] for element in order if element[0] == "k"}
    return len(heads) < 2


def _text_key(element: str) -> str:
    """A text without what closes it, so that a string comes before those it begins."""
    return element.rstrip("}").removesuffix('"')


_KIND_ORDER = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def _element_key(element: str) -> tuple[Any, ...]:
    kind = _KIND_ORDER.get(element[0], 5)
    if kind < 2:
        return kind, element
    if kind == 4:
        return kind, int(element[2:])
    content = orjson.loads(element[2:])
    if kind == 3:
        return kind, _value_key(content)
    return kind, [(name, _value_key(value)) for name, value in content.items()]


def _value_key(value: JSON) -> tuple[int, Any]:
    """What values are sorted by; only lists and maps need to be compared by a function."""
    rank = _rank(value)
    if rank < 3:
        return rank, value
    return rank, _by_value(value) if rank < 5 else 0


def _compare_values(left: JSON, right: JSON) -> int:
    """The order of values: numbers, strings, booleans, lists, maps, null."""
    mine, other = _rank(left), _rank(right)
    if mine != other:
        return -1 if mine < other else 1
    if mine == 3:
        return next((c for c in map(_compare_values, left, right) if c), len(left) - len(right))
    if mine == 4:
        return _compare_values(
            [x for item in sorted(left.items()) for x in item],
            [x for item in sorted(right.items()) for x in item],
        )
    return 0 if mine == 5 or left == right else (-1 if left < right else 1)


_by_value = cmp_to_key(_compare_values)


def _rank(value: JSON) -> int:
    match value:
        case bool():
            return 2
        case int() | float():
            return 0
        case str():
            return 1
        case list():
            return 3
        case dict():
            return 4
    return 5


# -- for people


def path_text(path: Iterable[str]) -> str:
    """A path as people read it: `.spec.containers[name="web"].image`."""
    return "".join(map(element_text, path))


def element_text(element: str, *, as_written: bool = False) -> str:
    """An element as people read it.

    Upstream reads stored numbers back as floats and then prints them so (1e+06);
    `as_written` is for elements that have not been stored yet.
    """
    kind, content = element[0], element[2:]
    if kind == "f":
        return "." + content
    if kind == "i":
        return f"[{content}]"
    value = orjson.loads(content)
    if not as_written:
        value = _as_read(value)
    if kind == "v":
        return f"[={gotext.show_quoted(value)}]"
    return "[" + ",".join(f"{k}={gotext.show_quoted(v)}" for k, v in value.items()) + "]"


def _as_read(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {k: _as_read(v) for k, v in value.items()}
    return float(value) if type(value) is int else value
