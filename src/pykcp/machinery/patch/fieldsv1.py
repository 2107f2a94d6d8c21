"""FieldsV1: path elements and their canonical text, reading untrusted sets, ordering.

An element is a letter, a colon and its content: `f:` a field's name, `k:` the keys of a
list element as a JSON object with sorted names, `v:` a scalar of a set as JSON, `i:` an
index. Two elements are the same exactly if their canonical texts are, which is what makes
sets plain dicts (`fieldset`).
"""

from __future__ import annotations

import math
import re
from functools import cmp_to_key
from typing import Any

import orjson

from pykcp.machinery.patch import gotext
from pykcp.machinery.patch.fieldset import Fields, Path
from pykcp.types import JSON


class BadFields(ValueError):
    """The text is no set of fields."""


_ESCAPED = re.compile('["\\\\<>&\x00-\x1f\u2028\u2029]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def scalar_text(value: JSON) -> str:
    """A value as JSON inside an element: HTML escaped, whole floats as integers."""
    kind = type(value)
    if kind is str:
        if _ESCAPED.search(value) is None:
            return f'"{value}"'
        return '"' + _ESCAPED.sub(_escape, value) + '"'
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return _float_text(value)
    if value is None:
        return "null"
    if kind is dict:
        return (
            "{" + ",".join(f"{scalar_text(k)}:{scalar_text(value[k])}" for k in sorted(value)) + "}"
        )
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
    if not exponent:
        mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"


def key_element(keys: list[tuple[str, JSON]]) -> str:
    """The element of a list item with these key fields, sorted by name."""
    return "k:{" + ",".join(f"{_name_text(n)}:{scalar_text(v)}" for n, v in keys) + "}"


def _name_text(name: str) -> str:
    return orjson.dumps(name).decode()


def value_element(value: JSON) -> str:
    """The element of a scalar in a set."""
    return "v:" + scalar_text(value)


def parse(fields: JSON) -> Fields:
    """A set from untrusted JSON, made canonical; BadFields if it is none.

    Elements of a kind that we do not know are left out, as upstream does for the benefit
    of versions to come.
    """
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise BadFields("expect { or n")
    return canonical(_parsed(fields))


def _parsed(fields: Fields) -> Fields:
    out: Fields = {}
    for element, node in fields.items():
        if element == ".":
            continue
        known = canonical_element(element)
        if known is None:
            continue
        if node is None:
            node = {}
        if not isinstance(node, dict):
            raise BadFields("expect { or n")
        children = _parsed(node)
        out[known] = {".": {}, **children} if children and "." in node else children
    return out


def canonical_element(element: str) -> str | None:
    """The canonical text of an element; None if its kind is unknown."""
    if len(element) < 2:
        raise BadFields("parsing key as path element: key must be 2 characters long:")
    if element[1] != ":":
        raise BadFields(f"parsing key as path element: missing colon: {element}")
    match element[0]:
        case "f":
            return element
        case "v":
            return value_element(_content(element))
        case "k":
            content = _content(element)
            if content is None:
                content = {}
            if not isinstance(content, dict):
                raise BadFields("parsing key as path element: expect { or n")
            return key_element(sorted(content.items()))
        case "i":
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", element[2:]):
                raise BadFields(f"parsing key as path element: bad index: {element}")
            return f"i:{int(element[2:])}"
    return None


def _content(element: str) -> JSON:
    try:
        return orjson.loads(element[2:])
    except orjson.JSONDecodeError as error:
        raise BadFields(f"parsing key as path element: {element}") from error


def canonical(fields: Fields) -> Fields:
    """The same set with its elements in order at every level."""
    if len(fields) == 1:
        ((element, node),) = fields.items()
        return {element: canonical(node)} if node else fields
    order = sorted(fields)
    if order and order[-1] > "g":
        order.sort(key=_element_order)
    return {e: canonical(node) if (node := fields[e]) else node for e in order}


def _compare_values(left: JSON, right: JSON) -> int:
    """The order of scalars: numbers, strings, booleans, lists, maps, null."""
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


_by_value = cmp_to_key(_compare_values)
_KIND_ORDER = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def _element_order(element: str) -> tuple[Any, ...]:
    kind = _KIND_ORDER.get(element[0], 5)
    if kind < 2:
        return kind, element
    if kind == 4:
        return kind, int(element[2:])
    content = orjson.loads(element[2:])
    if kind == 3:
        return kind, _by_value(content)
    return kind, [(name, _by_value(value)) for name, value in content.items()]


def path_text(path: Path) -> str:
    """A path as people read it: `.spec.containers[name="web"].image`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """An element as people read it."""
    kind, content = element[0], element[2:]
    if kind == "f":
        return "." + content
    if kind == "i":
        return f"[{content}]"
    value = _as_read(orjson.loads(content))
    if kind == "v":
        return f"[={gotext.show_quoted(value)}]"
    return "[" + ",".join(f"{k}={gotext.show_quoted(v)}" for k, v in value.items()) + "]"


def _as_read(value: JSON) -> JSON:
    """Numbers as upstream holds them once read back: as floats, and printed so."""
    if isinstance(value, dict):
        return {k: _as_read(v) for k, v in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if not isinstance(value, float) or math.isfinite(value) else 0.0
