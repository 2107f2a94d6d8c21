"""Pruning: custom resources keep only what their schema knows.

A schema is compiled into closures that look for unknown fields. Each works in place on
decoded JSON, which belongs to the caller, and adds the paths of what it dropped. On the
way, whole numbers that were written with a point (`1.0`) become integers, as Go writes
them back.

The fields of embedded objects (apiVersion, kind, metadata) are left alone here: see
`machinery.schema.embedded`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

from pykcp.machinery.lazy_path import LazyPath, spelled
from pykcp.machinery.patch.gojson import MAX_PROBLEMS
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

Pruner: TypeAlias = Callable[[Any, LazyPath, list[str]], None]
"""Takes a value, its path and the list of dropped paths, which is limited to what is reported."""

_META = frozenset(("apiVersion", "kind", "metadata"))
_EXACT = 1 << 53


def compile_pruner(schema: Schema) -> Pruner:
    """The pruner of a whole object; its metadata is not touched."""
    return _Compiler().object_pruner(schema, root=True)


class _Compiler:
    """Pruners of schema nodes. `open` ones keep what they do not know, one level deep."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], Pruner] = {}

    def pruner(self, schema: Schema | None, *, is_open: bool = False) -> Pruner:
        if schema is None:
            return _keep if is_open else _drop_all
        is_open = is_open or schema.preserve_unknown
        found = self._made.get((id(schema), is_open))
        if found is None:
            found = self._made[id(schema), is_open] = self.object_pruner(schema, is_open=is_open)
        return found

    def object_pruner(self, schema: Schema, *, root: bool = False, is_open: bool = False) -> Pruner:
        is_open = is_open or schema.preserve_unknown
        fields = {name: self.pruner(child) for name, child in schema.properties.items()}
        rest = None
        if schema.additional is not None:
            rest = self.pruner(schema.additional)
        elif schema.additional_allowed is not None:
            # a map of anything: its values have no schema, so nothing in them is known
            rest = _drop_all
        meta = _META if root or schema.embedded_resource else frozenset[str]()
        of_items = self.pruner(schema.items, is_open=is_open)

        def prune(value: Any, path: LazyPath, dropped: list[str]) -> None:
            if type(value) is dict:
                _prune_object(value, fields, rest, is_open, meta, path, dropped)
            elif type(value) is list:
                _prune_items(value, of_items, path, dropped)

        return prune


def _prune_object(
    value: Object,
    fields: dict[str, Pruner],
    rest: Pruner | None,
    is_open: bool,
    meta: frozenset[str],
    path: LazyPath,
    dropped: list[str],
) -> None:
    unknown: list[str] | None = None
    for key, item in value.items():
        if key in meta:
            continue
        prune = fields.get(key, rest)
        kind = type(item)
        if prune is None:
            if is_open:
                _keep(item, path, dropped)
            elif unknown is None:
                unknown = [key]
            else:
                unknown.append(key)
        elif kind is dict or kind is list:
            prune(item, (path, f".{key}"), dropped)
        if kind is float:
            value[key] = _whole(item)
    for key in unknown or ():
        del value[key]
        if len(dropped) < MAX_PROBLEMS and (path or key not in _META):
            dropped.append(spelled((path, f".{key}")))


def _prune_items(value: list[Any], prune: Pruner, path: LazyPath, dropped: list[str]) -> None:
    for index, item in enumerate(value):
        if type(item) is dict or type(item) is list:
            prune(item, (path, f"[{index}]"), dropped)
        elif type(item) is float:
            value[index] = _whole(item)


def _keep(value: Any, path: LazyPath, dropped: list[str]) -> None:
    """A value that may be anything; whole numbers in it are integers, as everywhere."""
    if type(value) is dict:
        for key, item in value.items():
            if type(item) is float:
                value[key] = _whole(item)
            else:
                _keep(item, path, dropped)
    elif type(value) is list:
        for index, item in enumerate(value):
            if type(item) is float:
                value[index] = _whole(item)
            else:
                _keep(item, path, dropped)


def _whole(number: float) -> float:
    return int(number) if number.is_integer() and -_EXACT <= number <= _EXACT else number


def _drop_all(value: Any, path: LazyPath, dropped: list[str]) -> None:
    """Objects that nothing is known about lose everything; lists keep their scalars."""
    if type(value) is dict:
        room = MAX_PROBLEMS - len(dropped)
        dropped.extend(spelled((path, f".{key}")) for key in islice(value, room))
        value.clear()
    elif type(value) is list:
        _prune_items(value, _drop_all, path, dropped)
