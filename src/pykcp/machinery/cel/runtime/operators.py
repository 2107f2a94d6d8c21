"""Operators on values: equality, membership, access by key.

The generated code does the common cases itself; it calls these where the types are not
known beforehand or the work is more than a line.
"""

from __future__ import annotations

import math
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.values import (
    BoolKey,
    EvalError,
    KeyedList,
    ObjectValue,
    Optional,
    SetList,
    UnknownValue,
    key_value,
    map_key,
)

_NO_OVERLOAD = "no such overload"
_JSON_SCALARS = frozenset((str, int, float, bool))
_NUMBERS = frozenset({"int", "uint", "double"})
_RECEIVERS = frozenset({"string", "google.protobuf.Timestamp", "google.protobuf.Duration"})


# --- equality


def equal(a: Any, b: Any) -> bool:
    """CEL's ==: numbers by value across their types, everything else only within its own."""
    if a is b and not isinstance(a, float):
        return True
    if isinstance(a, UnknownValue) or isinstance(b, UnknownValue):
        return bool(_raw(a) == _raw(b))
    ka, kb = kind_of(a), kind_of(b)
    if ka in _NUMBERS and kb in _NUMBERS:
        return bool(a == b)
    if ka != kb:
        return False
    if ka == "list":
        return _equal_lists(a, b)
    if ka == "map":
        return _equal_maps(a, b)
    if ka == "optional_type":
        return a.present == b.present and (not a.present or equal(a.value, b.value))
    return bool(a == b)


def _raw(value: Any) -> Any:
    if isinstance(value, UnknownValue | ObjectValue):
        return value.raw
    return value


def _equal_lists(a: list[Any], b: list[Any]) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, SetList):
        return _equal_sets(a, b)
    spend(len(a))
    if isinstance(a, KeyedList):
        by_key = {a.key_of(x): x for x in a}
        for item in b:
            key = a.key_of(item)
            if key not in by_key or not equal(by_key[key], item):
                return False
        return True
    return all(equal(x, y) for x, y in zip(a, b, strict=True))


def _equal_sets(a: list[Any], b: list[Any]) -> bool:
    """In any order; by one look at a set where all items are scalars."""
    spend(len(a))
    if all(type(x) in _JSON_SCALARS for x in (*a, *b)):
        known = {(type(x) is bool, x) for x in a}
        return all((type(y) is bool, y) in known for y in b)
    spend(len(a) * len(b))
    return all(any(equal(x, y) for x in a) for y in b)


def _equal_maps(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    if isinstance(a, ObjectValue):
        return _equal_objects(a, b)
    if size(a) != size(b):
        return False
    spend(len(a))
    return all(key in b and equal(value, b[key]) for key, value in a.items())


def _equal_objects(a: ObjectValue, b: dict[Any, Any]) -> bool:
    if len(a.raw) != size(b):
        return False
    spend(len(a.raw))
    for name in a.raw:
        if name in a.known:
            continue
        if not isinstance(b, ObjectValue):
            raise EvalError(_NO_OVERLOAD)
        if name in b.raw and b.raw[name] != a.raw[name]:
            return False
    for key, value in a.items():
        if key not in b or not equal(value, b[key]):
            return False
    return not any(key not in a for key in b) if isinstance(b, ObjectValue) else True


def size(value: Any) -> int:
    if isinstance(value, ObjectValue):
        return len(value.raw)
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise EvalError(_NO_OVERLOAD if kind_of(value) in _RECEIVERS else "no such overload: size")


# --- membership


def contains(value: Any, container: Any) -> bool:
    """CEL's `in`."""
    if isinstance(container, list):
        return any(equal(x, value) for x in container)
    if isinstance(container, ObjectValue):
        return isinstance(value, str) and value in container
    if isinstance(container, dict):
        return _find_key(container, value)[0]
    raise EvalError(_NO_OVERLOAD)


def _find_key(container: dict[Any, Any], key: Any) -> tuple[bool, Any]:
    try:
        stored = map_key(key)
        if stored in container:
            return True, container[stored]
    except TypeError:
        pass
    return False, None


# --- access


def index(container: Any, key: Any) -> Any:
    """container[key]."""
    if isinstance(container, Optional):
        return opt_index(container, key)
    if isinstance(container, list):
        return container[list_index(container, key)]
    if isinstance(container, dict):
        found, value = _find_key(container, key)
        if found:
            return value
    raise EvalError(f"no such key: {show(key)}")


def list_index(container: list[Any], key: Any) -> int:
    kind = kind_of(key)
    if kind == "double":
        if not math.isfinite(key) or key != int(key):
            raise EvalError(f"unsupported index value {show(key)} in list")
        key = int(key)
    elif kind not in ("int", "uint"):
        raise EvalError(f"unsupported index type '{kind}' in list")
    if not 0 <= key < len(container):
        raise EvalError(f"index out of bounds: {int(key)}")
    return int(key)


def select(container: Any, name: str) -> Any:
    """container.name where the type of container is not known."""
    if isinstance(container, Optional):
        return opt_select(container, name)
    if isinstance(container, dict) and name in container:
        return container[name]
    raise EvalError(f"no such key: {name}")


def has(container: Any, name: str) -> bool:
    if isinstance(container, Optional):
        return container.present and has(container.value, name)
    return isinstance(container, dict) and name in container


def opt_select(container: Any, name: str) -> Optional:
    """container.?name"""
    if isinstance(container, Optional):
        if not container.present:
            return container
        container = container.value
    if isinstance(container, dict) and name in container:
        return Optional(container[name])
    return Optional(None, present=False)


def opt_index(container: Any, key: Any) -> Optional:
    """container[?key]"""
    if isinstance(container, Optional):
        if not container.present:
            return container
        container = container.value
    if isinstance(container, list):
        kind = kind_of(key)
        if kind in ("int", "uint") or (kind == "double" and key == int(key)):
            if 0 <= key < len(container):
                return Optional(container[int(key)])
            return Optional(None, present=False)
        raise EvalError(f"unsupported index type '{kind}' in list")
    if isinstance(container, dict):
        found, value = _find_key(container, key)
        if found:
            return Optional(value)
    return Optional(None, present=False)


def make_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {map_key(k): v for k, v in pairs}


def iterate(container: Any) -> list[Any]:
    """What a comprehension of one variable runs over."""
    if isinstance(container, list):
        return container
    if isinstance(container, dict):
        return [key_value(k) for k in container]
    from pykcp.machinery.cel.runtime.kinds import go_name

    raise EvalError(f"got '{go_name(container)}', expected iterable type")


def iterate_pairs(container: Any) -> list[tuple[Any, Any]]:
    """What a comprehension of two variables runs over."""
    if isinstance(container, list):
        return list(enumerate(container))
    if isinstance(container, dict):
        return [(key_value(k), v) for k, v in container.items()]
    from pykcp.machinery.cel.runtime.kinds import go_name

    raise EvalError(f"unsupported comprehension range type: {go_name(container)}")


def map_insert(target: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry to the map that a comprehension builds."""
    stored = map_key(key)
    if stored in target:
        raise EvalError(f"insert failed: key {show(key)} already exists")
    target[stored] = value


def map_insert_all(target: dict[Any, Any], entries: dict[Any, Any]) -> None:
    for key, value in entries.items():
        map_insert(target, key_value(key), value)


def unwrap_element(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise EvalError(
            f"cannot initialize optional list element from non-optional value {show(value)}"
        )
    return value


def unwrap_entry(key: Any, value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise EvalError(
            f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}"
        )
    return value


# --- logic


def truth(value: Any) -> bool:
    """The operand of a logical operator, whose type was not known."""
    if value is True or value is False:
        return bool(value)
    raise EvalError(_NO_OVERLOAD)


# --- text


def show(value: Any) -> str:
    """A value inside an error, as the reference implementation prints it."""
    if isinstance(value, BoolKey):
        value = value.value
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        from pykcp.machinery.cel.runtime.numbers import format_double

        return format_double(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(show(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Optional):
        return f"optional({show(value.value)})" if value.present else "optional.none()"
    return str(value)
