"""Defaulting: values that a schema gives to fields that have none.

Nulls that a schema does not allow go first: dropped where there is no default, replaced
where there is one. Defaults are copied, since objects are changed in place. Compiled to
closures; parts of a schema without defaults and without nulls to drop cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pykcp.machinery.schema.model import Schema
from pykcp.types import JSON

Filler: TypeAlias = Callable[[Any, bool], None]
"""Completes a value in place; nulls that may not stay are dropped only if it was given."""


def compile_defaulter(schema: Schema) -> Filler:
    """Drops nulls (if it is told to) and fills in defaults, in that order, in one pass."""
    return _Compiler().filler(schema)


def compile_plain_defaulter(schema: Schema) -> Callable[[Any], None] | None:
    """Fills in defaults in an object without nulls; None if the schema has no defaults."""
    return _PlainCompiler().filler(schema)


class _PlainCompiler:
    """Fillers that go only where defaults are."""

    def __init__(self) -> None:
        self._made: dict[int, Callable[[Any], None] | None] = {}

    def filler(self, schema: Schema) -> Callable[[Any], None] | None:
        key = id(schema)
        if key not in self._made:
            self._made[key] = None  # ends recursion: schemas of custom resources have no cycles
            self._made[key] = self._make(schema)
        return self._made[key]

    def _make(self, schema: Schema) -> Callable[[Any], None] | None:
        defaults = [(n, c.default) for n, c in schema.properties.items() if has_default(c)]
        fillers = [(n, self.filler(c)) for n, c in schema.properties.items()]
        children = [(n, fill) for n, fill in fillers if fill is not None]
        rest = self.filler(schema.additional) if schema.additional is not None else None
        items = self.filler(schema.items) if schema.items is not None else None
        if not defaults and not children and rest is None and items is None:
            return None

        def fill(value: Any) -> None:
            if type(value) is dict:
                for name, default in defaults:
                    if name not in value:
                        value[name] = copy(default)
                for name, sub in children:
                    if name in value:
                        sub(value[name])
                if rest is not None:
                    for name, item in value.items():
                        if name not in schema.properties:
                            rest(item)
            elif type(value) is list and items is not None:
                for item in value:
                    items(item)

        return fill


def copy(value: JSON) -> JSON:
    """A copy that shares nothing with the original."""
    if type(value) is dict:
        return {key: copy(item) for key, item in value.items()}
    if type(value) is list:
        return [copy(item) for item in value]
    return value


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[int, Filler] = {}

    def filler(self, schema: Schema) -> Filler:
        found = self._made.get(id(schema))
        if found is None:
            found = self._made[id(schema)] = self._make(schema)
        return found

    def _make(self, schema: Schema) -> Filler:
        children = {name: (self.filler(c), _null(c)) for name, c in schema.properties.items()}
        defaults = [(n, c.default) for n, c in schema.properties.items() if has_default(c)]
        rest = None
        if schema.additional is not None:
            rest = (self.filler(schema.additional), _null(schema.additional))
        of_items = None
        if schema.items is not None:
            of_items = (self.filler(schema.items), schema.items)

        def fill(value: Any, given: bool) -> None:
            if type(value) is dict:
                _fill_object(value, children, defaults, rest, given)
            elif type(value) is list and of_items is not None:
                _fill_items(value, *of_items, given)

        return fill


Null: TypeAlias = tuple[bool, bool, Any]
"""Whether null may stay, whether there is a default, and the default."""


def has_default(schema: Schema) -> bool:
    return schema.has_default and schema.default is not None


def _null(schema: Schema) -> Null:
    return schema.nullable, has_default(schema), schema.default


def _fill_object(
    value: dict[str, Any],
    children: dict[str, tuple[Filler, Null]],
    defaults: list[tuple[str, Any]],
    rest: tuple[Filler, Null] | None,
    given: bool,
) -> None:
    filled = _replace_nulls(value, children, rest, given)
    for key, default in defaults:
        if key not in value:
            value[key] = copy(default)
            filled.add(key)
    for key, item in value.items():
        if type(item) is dict or type(item) is list:
            child = children.get(key, rest)
            if child is not None:
                child[0](item, given and key not in filled)


def _replace_nulls(
    value: dict[str, Any],
    children: dict[str, tuple[Filler, Null]],
    rest: tuple[Filler, Null] | None,
    given: bool,
) -> set[str]:
    """The fields that got a default instead of a null."""
    nulls = [key for key, item in value.items() if item is None]
    filled: set[str] = set()
    for key in nulls:
        child = children.get(key, rest)
        if child is None:
            continue
        stays, has_default, default = child[1]
        if stays:
            continue
        if has_default:
            value[key] = copy(default)
            filled.add(key)
        elif given:
            del value[key]
    return filled


def _fill_items(value: list[Any], fill: Filler, schema: Schema, given: bool) -> None:
    for index, item in enumerate(value):
        fresh = False
        if item is None and not schema.nullable and schema.has_default:
            item, fresh = copy(schema.default), True
            value[index] = item
        if type(item) is dict or type(item) is list:
            fill(item, given and not fresh)
