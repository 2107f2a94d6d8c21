"""Defaulting: values that a schema gives to fields that have none.

Nulls that a schema does not allow go first: dropped where there is no default, replaced
where there is one. Defaults are copied, since objects are changed in place. Compiled to
closures; parts of a schema without defaults and without nulls to drop cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pykcp.machinery.patch import gojson
from pykcp.machinery.schema.growth import grow
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import RequestEntityTooLarge
from pykcp.types import JSON

Filler: TypeAlias = Callable[[Any, bool], None]
"""Completes a value in place; nulls that may not stay are dropped only if it was given."""


def compile_defaulter(schema: Schema) -> Filler:
    """Drops nulls (if requested) and sets defaults, in that order, in one pass."""
    return _Compiler().whole(schema)


def compile_plain_defaulter(schema: Schema) -> Callable[[Any], None] | None:
    """Fills in defaults in an object without nulls; None if the schema has no defaults."""
    return _PlainCompiler().whole(schema)


class _PlainCompiler:
    """Fillers that go only where defaults are."""

    def __init__(self) -> None:
        self._made: dict[int, Callable[[Any], None] | None] = {}
        self._allowance = Allowance()

    def whole(self, schema: Schema) -> Callable[[Any], None] | None:
        fill, allowance = self.filler(schema), self._allowance
        if fill is None:
            return None

        def fill_whole(value: Any) -> None:
            allowance.left = MAX_DEFAULTS
            fill(value)

        return fill_whole

    def filler(self, schema: Schema) -> Callable[[Any], None] | None:
        key = id(schema)
        if key not in self._made:
            self._made[key] = None  # ends recursion: schemas of custom resources have no cycles
            self._made[key] = self._make(schema)
        return self._made[key]

    def _make(self, schema: Schema) -> Callable[[Any], None] | None:
        defaults = _defaults(schema)
        take = self._allowance.take
        fillers = [(n, self.filler(c)) for n, c in schema.properties.items()]
        children = [(n, fill) for n, fill in fillers if fill is not None]
        rest = self.filler(schema.additional) if schema.additional is not None else None
        items = self.filler(schema.items) if schema.items is not None else None
        if not defaults and not children and rest is None and items is None:
            return None

        def fill(value: Any) -> None:
            if type(value) is dict:
                for name, default, size in defaults:
                    if name not in value:
                        take(size)
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


MAX_DEFAULTS = 8 * 1024 * 1024
"""How many bytes of JSON defaults may add to one object, which is larger than any that can be stored.

A short list of empty items must not become gigabytes. On the event loop it may not even become
some hundred kilobytes; see `growth`.
"""


class Allowance:
    """What defaults may still add to the object that is being completed."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_DEFAULTS

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise RequestEntityTooLarge(
                f"Request entity too large: defaults add more than {MAX_DEFAULTS} bytes",
                details=False,
            )
        grow(size)


Default: TypeAlias = tuple[str, Any, int]
"""A field, its default and the length that both add."""


def _defaults(schema: Schema) -> list[Default]:
    return [
        (name, child.default, _length(name) + _size(child.default))
        for name, child in schema.properties.items()
        if has_default(child)
    ]


def _size(default: Any) -> int:
    return len(gojson.shown(default))


def _length(name: str) -> int:
    """Of a field's name, with quotes, colon and comma: more than most defaults."""
    return len(name.encode()) + 4


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
        self._allowance = Allowance()

    def whole(self, schema: Schema) -> Filler:
        fill, allowance = self.filler(schema), self._allowance

        def fill_whole(value: Any, given: bool) -> None:
            allowance.left = MAX_DEFAULTS
            fill(value, given)

        return fill_whole

    def filler(self, schema: Schema) -> Filler:
        found = self._made.get(id(schema))
        if found is None:
            found = self._made[id(schema)] = self._make(schema)
        return found

    def _make(self, schema: Schema) -> Filler:
        children = {name: (self.filler(c), _null(c)) for name, c in schema.properties.items()}
        defaults, allowance = _defaults(schema), self._allowance
        rest = None
        if schema.additional is not None:
            rest = (self.filler(schema.additional), _null(schema.additional))
        of_items = None
        if schema.items is not None:
            of_items = (self.filler(schema.items), schema.items, _size(schema.items.default))

        def fill(value: Any, given: bool) -> None:
            if type(value) is dict:
                _fill_object(value, children, defaults, rest, given, allowance)
            elif type(value) is list and of_items is not None:
                _fill_items(value, *of_items, given, allowance)

        return fill


Null: TypeAlias = tuple[bool, int, Any, bool]
"""Whether null may stay, the length of the default (0: there is none), the default, and whether
validation would let a null pass, since the schema names no type: storage drops it all the same."""


def has_default(schema: Schema) -> bool:
    return schema.has_default and schema.default is not None


def _null(schema: Schema) -> Null:
    size = has_default(schema) and _size(schema.default)
    has_no_type = not schema.type and not schema.int_or_string
    return schema.nullable, size, schema.default, has_no_type


def _fill_object(
    value: dict[str, Any],
    children: dict[str, tuple[Filler, Null]],
    defaults: list[Default],
    rest: tuple[Filler, Null] | None,
    given: bool,
    allowance: Allowance,
) -> None:
    filled = _replace_nulls(value, children, rest, given, allowance)
    for key, default, size in defaults:
        if key not in value:
            allowance.take(size)
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
    allowance: Allowance,
) -> set[str]:
    """The fields that got a default instead of a null."""
    nulls = [key for key, item in value.items() if item is None]
    filled: set[str] = set()
    for key in nulls:
        child = children.get(key, rest)
        if child is None:
            continue
        stays, size, default, has_no_type = child[1]
        if stays:
            continue
        if size:
            allowance.take(size)
            value[key] = copy(default)
            filled.add(key)
        elif given or has_no_type:
            del value[key]
    return filled


def _fill_items(
    value: list[Any], fill: Filler, schema: Schema, size: int, given: bool, allowance: Allowance
) -> None:
    for index, item in enumerate(value):
        fresh = False
        if item is None and not schema.nullable and schema.has_default:
            allowance.take(size)
            item, fresh = copy(schema.default), True
            value[index] = item
        if type(item) is dict or type(item) is list:
            fill(item, given and not fresh)
