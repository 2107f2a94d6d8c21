"""Uniqueness of the items of lists that are sets or maps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

import orjson

from pykcp.machinery.lazy_path import LazyPath, spelled
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import MAX_FIELD_ERRORS, FieldError, duplicate, invalid

Check: TypeAlias = Callable[[Any], bool]


def compile_list_check(schema: Schema) -> Check | None:
    """Whether no list says the same thing twice; None if no list is a set or a map."""
    return _Compiler().check(schema)


class _Compiler:
    """Checks that go only where sets and maps are."""

    def __init__(self) -> None:
        self._made: dict[int, Check | None] = {}

    def check(self, schema: Schema) -> Check | None:
        key = id(schema)
        if key not in self._made:
            self._made[key] = None
            self._made[key] = self._make(schema)
        return self._made[key]

    def _make(self, schema: Schema) -> Check | None:
        found = [(name, self.check(child)) for name, child in schema.properties.items()]
        fields = [(name, check) for name, check in found if check is not None]
        rest = self.check(schema.additional) if schema.additional is not None else None
        items = self.check(schema.items) if schema.items is not None else None
        own = schema.list_type in {"set", "map"}
        if not fields and rest is None and items is None and not own:
            return None

        def check(value: Any) -> bool:
            if type(value) is dict:
                for name, test in fields:
                    if name in value and not test(value[name]):
                        return False
                return rest is None or all(rest(item) for item in value.values())
            if type(value) is list:
                if own and not _is_unique(schema, value):
                    return False
                return items is None or all(items(item) for item in value)
            return True

        return check


def _is_unique(schema: Schema, value: list[Any]) -> bool:
    try:
        if schema.list_type == "set":
            return len(value) < 2 or len({(type(v), v) for v in value}) == len(value)
        if len(schema.list_keys) == 1:
            (key,) = schema.list_keys
            return len({(type(item[key]), item[key]) for item in value}) == len(value)
    except (TypeError, KeyError):
        pass  # something unusual: a missing key, no object, a key that is no scalar
    if schema.list_type == "set":
        return not _repeated(value)
    return not _map_errors(schema, value, None)


def list_errors(schema: Schema, value: Any) -> list[FieldError]:
    """Duplicate items of sets and keys of maps; at most as many as are reported."""
    errors: list[FieldError] = []
    _find_errors(schema, value, None, errors)
    return errors


def _find_errors(schema: Schema, value: Any, path: LazyPath, errors: list[FieldError]) -> None:
    if type(value) is dict:
        for key, item in value.items():
            if type(item) is not dict and type(item) is not list:
                continue
            child = schema.properties.get(key)
            if child is not None:
                _find_errors(child, item, (path, f".{key}"), errors)
            elif schema.additional is not None:
                _find_errors(schema.additional, item, (path, f"[{key}]"), errors)
    elif type(value) is list:
        if len(errors) > MAX_FIELD_ERRORS:
            return
        if schema.list_type == "set":
            twice = islice(_repeated(value), MAX_FIELD_ERRORS + 1)
            errors += (duplicate(_item(path, i), _sorted(value[i])) for i in twice)
        elif schema.list_type == "map":
            errors += _map_errors(schema, value, path)
        if schema.items is not None:
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    _find_errors(schema.items, item, (path, f"[{index}]"), errors)


def _item(path: LazyPath, index: int) -> str:
    return spelled((path, f"[{index}]"))


def _map_errors(schema: Schema, value: list[Any], path: LazyPath) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and type(item) is not dict:
            message = "must be an object for an array of list-type map"
            return [invalid(_item(path, index), item, message)]
    keys = [_key(schema.list_keys, item or {}) for item in value]
    twice = islice(_repeated(keys), MAX_FIELD_ERRORS + 1)
    return [duplicate(_item(path, i), _sorted(keys[i])) for i in twice]


def _sorted(value: Any) -> Any:
    """As Go prints it: maps in the order of their keys."""
    if type(value) is dict:
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if type(value) is list else value


def _key(names: tuple[str, ...], item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}


def _repeated(values: list[Any]) -> list[int]:
    """Positions of the first duplicate of each value; later duplicates are not reported."""
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    repeated = []
    for index, value in enumerate(values):
        identity = _identity(value)
        times = seen.get(identity, 0)
        seen[identity] = times + 1
        if times == 1:
            repeated.append(index)
    return repeated


def _identity(value: Any) -> Any:
    if type(value) is dict or type(value) is list:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value
