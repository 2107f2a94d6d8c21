"""Violations of a schema, with upstream's messages.

Only objects that failed the compiled check come here. The walk follows upstream's
validators in their order; a violation is an entry of a `Violations`, which also counts what
did match, since of several alternatives upstream shows the failures of the one that
matched most.

On update, a part that has not changed may keep its old violations (ratcheting): values
are compared with their counterparts in the old object, list items only in lists of type
map.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from pykcp.caching import BoundedCache
from pykcp.machinery.lazy_path import LazyPath, joined, spelled
from pykcp.machinery.patch.gotext import show_float
from pykcp.machinery.regex import RegexError, compiled
from pykcp.machinery.schema.formats import format_check
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.validation import (
    _NUMBER_FORMATS,
    Check,
    PatternWork,
    are_distinct,
    enum_check,
    format_of,
    is_json_integer,
    json_type,
    node_checks,
    pattern_check,
    same_scalar,
    types_of,
)
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

_NOWHERE = "<nil>"
"""Where upstream puts violations that it cannot place."""
_work = PatternWork()
"""What patterns may still do for the value that is being looked at."""


class _Walk:
    """What is known throughout one walk."""

    def __init__(self) -> None:
        self.checks = node_checks(_work)
        self.branches = 0
        """How many alternatives of a schema are being tried."""

    def quick(self, schema: Schema, size: int) -> Callable[[Any], bool] | None:
        """A check by which the valid ones of many values can be passed over.

        Not where alternatives are tried: there all that matches is counted.
        """
        return self.checks(schema) if size >= _MANY and not self.branches else None


_walk = _Walk()
_MANY = 8


@dataclass(slots=True)
class Violations:
    """Violations in order, each text once, and how much matched."""

    errors: dict[str, FieldError] = field(default_factory=dict)
    matches: int = 0
    changed: bool = False
    """Something in the value is known to be otherwise than in the old object."""

    def add(self, error: FieldError) -> None:
        self.errors.setdefault(error.text(), error)

    def merge(self, other: Violations) -> None:
        if other.errors:
            for key, error in other.errors.items():
                self.errors.setdefault(key, error)
            self.changed = self.changed or other.changed
        self.matches += other.matches

    def is_enough(self) -> bool:
        """Whether there are more violations than are reported."""
        return len(self.errors) > MAX_FIELD_ERRORS


@dataclass(frozen=True, slots=True)
class Old:
    """The counterpart of a value in the old object, if it has one."""

    value: Any


def schema_errors(
    schema: Schema, value: Any, old: Any = None, *, path: str = "", ratcheting: bool = False
) -> list[FieldError]:
    """All violations; with `ratcheting`, without those that the old object already had."""
    counterpart = Old(old) if ratcheting else None
    _work.begin()
    _walk.checks, _walk.branches = node_checks(_work), 0
    result = _value(schema, value, None, counterpart)
    errors = list(result.errors.values())
    return [_below(path, e) for e in errors] if path else errors


def _below(path: str, error: FieldError) -> FieldError:
    where = path if error.path == _NOWHERE else f"{path}.{error.path}"
    return FieldError(where, error.reason, error.message, error.value, error.shown)


def _value(schema: Schema, value: Any, path: LazyPath, old: Old | None) -> Violations:
    result = _validate(schema, value, path, old)
    # A part that has changed makes a change of all that it is in: nothing is compared twice.
    if result.errors and old is not None and not result.changed:
        if _unchanged(schema, value, old.value):
            return Violations(matches=result.matches)
        result.changed = True
    return result


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(v, other[k]) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is not list and type(one) is not dict and same_scalar(one, other)


def _unchanged(schema: Schema, value: Any, old: Any) -> bool:
    """Equality as upstream defines it: fields without a schema have no counterpart."""
    if isinstance(value, dict) and isinstance(old, dict):
        return len(value) == len(old) and all(
            key in old and child is not None and _unchanged(child, item, old[key])
            for key, item in value.items()
            for child in (schema.properties.get(key, schema.additional),)
        )
    if isinstance(value, list) and isinstance(old, list) and schema.list_type == "map":
        if len(value) != len(old) or schema.items is None:
            return False
        olds = _old_items(schema, Old(old))
        for item in value:
            counterpart = _old_item(schema, item, olds)
            if counterpart is None or not _unchanged(schema.items, item, counterpart.value):
                return False
        return True
    return _same(value, old)


def _validate(schema: Schema, value: Any, path: LazyPath, old: Old | None) -> Violations:
    if value is None:
        result = _type(schema, value, path)
        result.merge(_enum(schema, value, path))
        return result
    result = Violations()
    parts: list[Violations] = []
    kind = type(value)
    form = format_of(schema) if schema.format else ""
    if form or types_of(schema):
        parts.append(_type(schema, value, path))
    if schema.any_of or schema.one_of or schema.all_of or schema.not_ is not None:
        parts.append(_branches(schema, value, path))
    else:
        result.matches += 2
    if kind is str:
        parts.append(_string(schema, value, path))
        if form and form not in _NUMBER_FORMATS:
            parts.append(_format(form, value, path))
    elif kind is int or kind is float:
        parts.append(_number(schema, value, path))
    elif kind is list:
        parts.append(_list(schema, value, path, old))
    if schema.enum:
        parts.append(_enum(schema, value, path))
    else:
        result.matches += 1
    if kind is dict:
        parts.append(_object(schema, value, path, old))
    for part in parts:
        result.merge(part)
        result.matches += 1
    result.matches += 1
    return result


def _show(path: LazyPath) -> str:
    return f"{joined(path)} in body"


def _place(path: LazyPath) -> str:
    return spelled(path) or _NOWHERE


def _wrong_type(path: LazyPath, expected: str, given: str) -> FieldError:
    message = f"{_show(path)} must be of type {expected}: {go_quote(given)}"
    return type_invalid(_place(path), given, message)


_GO_FORMATS = {"integer": "int64", "number": "float64"}


def _type(schema: Schema, value: Any, path: LazyPath) -> Violations:
    result = Violations(matches=1)
    types, form = types_of(schema), format_of(schema)
    if value is None:
        if types and not schema.nullable:
            return _only(_wrong_type(path, ",".join(types), "null"))
        return result
    kind = json_type(value)
    if kind == "integer" and not -(1 << 63) <= value < 1 << 63:
        kind = "number"  # Go reads it as a float
    whole = kind == "number" and is_json_integer(value) and "integer" in types
    fits = kind in types or whole or (kind == "integer" and "number" in types)
    if form and type(value) not in {str, list} and not fits:
        go_format = _GO_FORMATS.get(kind, "")
        if go_format != form:
            return _only(_wrong_type(path, form, go_format))
    if form and type(value) in {str, list} and not {"number", "integer"} & set(types):
        return result
    return result if fits else _only(_wrong_type(path, ",".join(types), kind))


def _only(error: FieldError) -> Violations:
    result = Violations()
    result.add(error)
    return result


def _unplaced(message: str) -> FieldError:
    return invalid(_NOWHERE, "", message)


def _composite(path: LazyPath, message: str) -> FieldError:
    return _unplaced(f"{go_quote(joined(path))} {message}")


def _branches(schema: Schema, value: Any, path: LazyPath) -> Violations:
    """allOf, anyOf, oneOf and not; ratcheting does not reach into them."""
    main = Violations()
    _walk.branches += 1
    if schema.any_of:
        _any_of(schema, value, path, main)
    if schema.one_of:
        _one_of(schema, value, path, main)
    if schema.all_of:
        valid = 0
        for branch in schema.all_of:
            result = _validate(branch, value, path, None)
            valid += not result.errors
            main.merge(result)
        if valid != len(schema.all_of):
            more = "" if valid else ". None validated"
            main.add(_composite(path, f"must validate all the schemas (allOf){more}"))
    if schema.not_ is not None and not _validate(schema.not_, value, path, None).errors:
        main.add(_composite(path, "must not validate the schema (not)"))
    _walk.branches -= 1
    main.matches += 1
    return main


def _any_of(schema: Schema, value: Any, path: LazyPath, main: Violations) -> None:
    best: Violations | None = None
    for branch in schema.any_of:
        result = _validate(branch, value, path, None)
        if not result.errors:
            main.merge(result)
            return
        if best is None or result.matches > best.matches:
            best = result
    main.add(_composite(path, "must validate at least one schema (anyOf)"))
    if best is not None:
        main.merge(best)


def _one_of(schema: Schema, value: Any, path: LazyPath, main: Violations) -> None:
    best: Violations | None = None
    first: Violations | None = None
    valid = 0
    for branch in schema.one_of:
        result = _validate(branch, value, path, None)
        if not result.errors:
            valid += 1
            best = None
            first = first or result
        elif not valid and (best is None or result.matches > best.matches):
            best = result
    if valid == 1 and first is not None:
        main.merge(first)
        return
    found = f"Found {valid} valid alternatives" if valid else "Found none valid"
    main.add(_composite(path, f"must validate one and only one schema (oneOf). {found}"))
    if best is not None:
        main.merge(best)


def _string(schema: Schema, value: str, path: LazyPath) -> Violations:
    length = len(value)
    if schema.max_length is not None and length > schema.max_length:
        return _only(too_long(_place(path), schema.max_length))
    if schema.min_length is not None and length < schema.min_length:
        message = f"{_show(path)} should be at least {schema.min_length} chars long"
        return _only(invalid(_place(path), value, message))
    if schema.pattern and not pattern_check(schema.pattern, _work)(value):
        message = f"{_show(path)} should match '{_pattern_text(schema.pattern)}'"
        return _only(invalid(_place(path), value, message))
    return Violations()


def _pattern_text(pattern: str) -> str:
    try:
        compiled(pattern)
    except RegexError as error:
        return f"{pattern}, but pattern is invalid: {error}"
    return pattern if _work.left >= 0 else f"{pattern}, but the text is too long for this pattern"


def _format(form: str, value: str, path: LazyPath) -> Violations:
    if format_check(form)(value):
        return Violations()
    message = f"{_show(path)} must be of type {form}: {go_quote(value)}"
    return _only(type_invalid(_place(path), value, message))


def _number(schema: Schema, value: float, path: LazyPath) -> Violations:
    result = Violations()
    for error in number_violations(schema, value, path):
        result.add(error)
    result.matches += 1
    return result


def number_violations(schema: Schema, value: float, path: LazyPath) -> list[FieldError]:
    """Range, multiple, minimum and maximum, in that order."""
    errors = _out_of_range(schema, value, "Checked", path)
    if schema.multiple_of is not None:
        errors += _multiple(schema, value, path)
    if schema.minimum is not None:
        errors += _out_of_range(schema, schema.minimum, "Minimum boundary", path)
        errors += _limit(schema, value, schema.minimum, path, is_maximum=False)
    if schema.maximum is not None:
        errors += _out_of_range(schema, schema.maximum, "Maximum boundary", path)
        errors += _limit(schema, value, schema.maximum, path, is_maximum=True)
    return errors


def _out_of_range(schema: Schema, value: float, what: str, path: LazyPath) -> list[FieldError]:
    """A number that its type or format cannot hold; upstream does not say where."""
    kind = schema.type if not schema.int_or_string else ""
    form = format_of(schema) if kind in {"integer", "number"} else ""
    if kind == "integer":
        bits = 31 if form == "int32" else 63
        fits = value == int(value) and -(1 << bits) <= value < 1 << bits
    elif form == "float":
        fits = _fits_float32(value)
    else:
        return []
    if fits:
        return []
    which = f"with format {form}" if form else "(default format)"
    return [_unplaced(f"{what} value must be of type {kind} {which} in {joined(path)}")]


def _fits_float32(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


def _limit(
    schema: Schema, value: float, limit: float, path: LazyPath, *, is_maximum: bool
) -> list[FieldError]:
    whole = type(value) is int and not _out_of_range(schema, limit, "", path)
    bound: float = int(limit) if whole else float(limit)
    exclusive = schema.exclusive_maximum if is_maximum else schema.exclusive_minimum
    beyond = value > bound if is_maximum else value < bound
    if not beyond and not (exclusive and value == bound):
        return []
    word = "less than" if is_maximum else "greater than"
    if not exclusive:
        word += " or equal to"
    shown = str(bound) if whole else show_float(bound)
    given = value if whole else float(value)
    return [invalid(_place(path), given, f"{_show(path)} should be {word} {shown}")]


def _multiple(schema: Schema, value: float, path: LazyPath) -> list[FieldError]:
    factor = schema.multiple_of or 0
    errors = _out_of_range(schema, factor, "MultipleOf", path)
    whole = type(value) is int and not errors
    shown = str(int(factor)) if whole else show_float(float(factor))
    if (int(factor) if whole else factor) <= 0:
        message = f"factor MultipleOf declared for {joined(path)} must be positive: {shown}"
        given = int(factor) if whole else float(factor)
        return [*errors, invalid(_place(path), given, message)]
    if whole:
        fits = value % int(factor) == 0
    else:
        quotient = 1 / factor * value if factor < 1 else value / factor
        fits = is_json_integer(quotient)
    if fits:
        return errors
    message = f"{_show(path)} should be a multiple of {shown}"
    return [*errors, invalid(_place(path), value if whole else float(value), message)]


def _list(schema: Schema, value: list[Any], path: LazyPath, old: Old | None) -> Violations:
    result = Violations(matches=1)
    if schema.items is not None:
        olds = _old_items(schema, old)
        is_valid = _walk.quick(schema.items, len(value))
        for index, item in enumerate(value):
            if is_valid is not None and is_valid(item):
                continue
            if result.is_enough():
                return result
            counterpart = _old_item(schema, item, olds) if olds else None
            result.merge(_value(schema.items, item, (path, f"[{index}]"), counterpart))
    size = len(value)
    if schema.min_items is not None and size < schema.min_items:
        message = f"{_show(path)} should have at least {schema.min_items} items"
        result.add(invalid(_place(path), size, message))
    if schema.max_items is not None and size > schema.max_items:
        result.add(too_many(_place(path), size, schema.max_items))
    if schema.unique_items and not are_distinct(value):
        result.add(invalid(_place(path), "", f"{_show(path)} shouldn't contain duplicates"))
    return result


_Key: TypeAlias = tuple[tuple[bool, Any], ...]


def _old_items(schema: Schema, old: Old | None) -> dict[_Key, Any]:
    """The items of the old list by key; only lists of type map have counterparts."""
    out: dict[_Key, Any] = {}
    if old is None or schema.list_type != "map" or not isinstance(old.value, list):
        return out
    for item in old.value:
        key = _scalar_key(schema, item)
        if key is not None:
            out.setdefault(key, item)
    return out


def _old_item(schema: Schema, item: Any, olds: dict[_Key, Any]) -> Old | None:
    """The old item of the same key."""
    key = _scalar_key(schema, item)
    return Old(olds[key]) if key is not None and key in olds else None


def _scalar_key(schema: Schema, item: Any) -> _Key | None:
    """What identifies an item; None if a part of it is missing or no scalar."""
    if not isinstance(item, dict):
        return None
    values = [item.get(name) for name in schema.list_keys]
    if any(v is None or isinstance(v, (dict, list)) for v in values):
        return None
    return tuple((type(v) is bool, v) for v in values)


_enum_checks: BoundedCache[int, tuple[tuple[Any, ...], Check]] = BoundedCache("enums", 16)


def _enum_check(allowed: tuple[Any, ...]) -> Check:
    """The check of an enum; the latest are kept, since many values may ask for the same."""
    known = _enum_checks.get(id(allowed))
    if known is not None and known[0] is allowed:
        return known[1]
    return _enum_checks.put(id(allowed), (allowed, enum_check(allowed)))[1]


def _enum(schema: Schema, value: Any, path: LazyPath) -> Violations:
    if not schema.enum or _enum_check(schema.enum)(value):
        return Violations()
    allowed = [v if isinstance(v, str) else orjson.dumps(v).decode() for v in schema.enum]
    return _only(not_supported(_place(path), value, allowed))


def _object(schema: Schema, value: dict[str, Any], path: LazyPath, old: Old | None) -> Violations:
    result = Violations()
    _size(schema, len(value), path, result)
    is_valid = None
    if schema.additional is not None:
        is_valid = _walk.quick(schema.additional, len(value))
    for key, item in value.items():
        if key in schema.properties or (is_valid is not None and is_valid(item)):
            continue
        if result.is_enough():
            return result
        if schema.additional_allowed is False:
            message = f"{joined((path, f'.{key}'))} in body is a forbidden property"
            result.add(invalid(_place(path), key, message))
        elif schema.additional is not None:
            counterpart = _old_field(key, old)
            result.merge(_value(schema.additional, item, (path, f".{key}"), counterpart))
    for name, child in schema.properties.items():
        if name in value and not result.is_enough():
            here = path, f".{name}" if path else name
            counterpart = (
                None if path is None and name in {"kind", "apiVersion"} else _old_field(name, old)
            )
            result.merge(_value(child, value[name], here, counterpart))
    for name in schema.required:
        if name not in value and not result.is_enough():
            result.add(required(_place((path, f".{name}"))))
    return result


def _size(schema: Schema, size: int, path: LazyPath, result: Violations) -> None:
    if schema.min_properties is not None and size < schema.min_properties:
        message = f"{_show(path)} should have at least {schema.min_properties} properties"
        result.add(invalid(_place(path), size, message))
    if schema.max_properties is not None and size > schema.max_properties:
        result.add(too_many(_place(path), size, schema.max_properties))


def _old_field(name: str, old: Old | None) -> Old | None:
    if old is None or not isinstance(old.value, dict) or name not in old.value:
        return None
    return Old(old.value[name])
