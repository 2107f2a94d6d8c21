"""Strategic merge patch: merge patch that knows which lists are keyed.

What a list is (replaced, merged by a key, a set of scalars) stands in the schema, taken
from the Go types upstream. A patch may carry directives: `$patch` (replace, delete) in an
object or a list element, `$retainKeys`, `$deleteFromPrimitiveList/<list>` and
`$setElementOrder/<list>`. For kinds that are defined by a CRD see `strategic_custom`.

Errors with a status of their own are 400 or 422; all others reach the client as 500 with
their plain text, upstream's way, because scripts match those texts.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from pykcp.machinery.patch import gojson, gotext
from pykcp.machinery.patch.gotext import go_type
from pykcp.machinery.patch.refusals import unexpected
from pykcp.machinery.patch.strategic_custom import is_custom, member
from pykcp.machinery.patch.strategic_lists import (
    DIRECTIVE,
    MAP,
    SET_ORDER,
    bad_type,
    check_order,
    deduplicated,
    element_type,
    identity,
    in_element_order,
    no_merge_key,
    partition,
)
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import BadRequest, StatusError
from pykcp.types import JSON, Object

RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"

_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_RETAIN = "invalid patch format of retainKeys"
_BAD_DELETE = "invalid patch format of primitive list"


def decode(body: bytes, *, strict: bool) -> tuple[Object, list[str]]:
    """The patch in a request's body, and what strict decoding has against it."""
    try:
        patch = gojson.decode(body)
    except gojson.BadJSON as error:
        raise BadRequest(str(error)) from error
    if patch is None:
        return {}, []
    if not isinstance(patch, dict):
        raise BadRequest(
            f"json: cannot unmarshal {gojson.type_word(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return patch, gojson.duplicates_of(body, patch) if strict else []


def apply(schema: Schema, document: Object, patch: Object) -> Object:
    """The document with the patch merged in; neither argument is changed."""
    try:
        return _merge_map(schema, document, patch)
    except RecursionError as error:
        raise BadRequest("exceeded max depth") from error


def _merge_map(schema: Schema | None, original: Object, patch: Object) -> Object:
    if DIRECTIVE in patch:
        return _whole_map(patch)
    patch = dict(patch)
    original = _retained(dict(original), patch)
    _merge_ordered_lists(schema, original, patch)
    for key, value in patch.items():
        is_deletion = key.startswith(DELETE_FROM)
        if is_deletion:
            key = _list_name(key, DELETE_FROM, _BAD_DELETE)
        if value is None:
            original.pop(key, None)
            continue
        current: Any = original.get(key)
        if key not in original or go_type(current) != go_type(value):
            if not is_deletion:
                _put_clean(original, key, _without_nulls(value))
        elif isinstance(value, dict):
            original[key] = _merge_field(schema, key, current, value)
        elif isinstance(value, list):
            field = _list_field(schema, key)
            original[key] = _merge_list_field(field, list(current), value, is_deletion=is_deletion)
        else:
            original[key] = value
    return original


def _whole_map(patch: Object) -> Object:
    """An object with a directive: it replaces, or it empties."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: JSON, patch: Object) -> StatusError:
    shown = directive if isinstance(directive, str) else _as_verb_s(directive)
    return unexpected(f"unknown patch type: {shown} in map: {gotext.show(patch)}")


def _as_verb_s(value: JSON) -> str:
    """A value under `%s` when it is no string."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, (bool, int, float)):
        return f"%!s({go_type(value)}={gotext.show(value)})"
    return gotext.show(value)


def _merge_field(schema: Schema | None, key: str, current: Object, value: Object) -> Object:
    field = _field(schema, key)
    if _strategy(field) == "replace":
        return value
    return _merge_map(field, current, value)


def _put_clean(target: Object, key: str, value: JSON) -> None:
    """Take a value that had nothing to merge with: directives are dropped from it."""
    keep, clean = _without_directives(value)
    if keep:
        target[key] = clean
    else:
        target.pop(key, None)


def _without_directives(value: JSON) -> tuple[bool, JSON]:
    """Whether to keep a value at all, and the value without the parts that carry directives."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return False, None
        pairs = ((k, _without_directives(v)) for k, v in value.items())
        return True, {k: clean for k, (keep, clean) in pairs if keep}
    if isinstance(value, list):
        return True, [clean for keep, clean in map(_without_directives, value) if keep]
    return True, value


def _without_nulls(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# -- $retainKeys


def _retained(original: Object, patch: Object) -> Object:
    """What `$retainKeys` leaves of the original; the directive is taken off the patch."""
    if RETAIN_KEYS not in patch:
        return original
    names = patch.pop(RETAIN_KEYS)
    if not isinstance(names, list):
        raise BadRequest(_BAD_RETAIN)
    kept = {name for name in names if isinstance(name, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_FROM, SET_ORDER)) and key not in kept:
            raise BadRequest(_BAD_RETAIN)
    return {k: v for k, v in original.items() if k in kept}


# -- $setElementOrder


def _merge_ordered_lists(schema: Schema | None, original: Object, patch: Object) -> None:
    """Merge each list that has an order directive, and take both off the patch."""
    for directive in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise bad_type([], order)
        key = _list_name(directive, SET_ORDER, _BAD_ORDER)
        current, given = original.get(key), patch.get(key)
        if key in original and not isinstance(current, list):
            raise bad_type([], current)
        if key in patch and not isinstance(given, list):
            raise bad_type([], given)
        field = _list_field(schema, key)
        merge_key = field.patch_merge_key
        check_order(given or [], order, merge_key)
        server_order = list(current or [])
        if key in original and key in patch:
            merged = _merge_list_field(field, server_order, given or [], is_deletion=False)
        elif key in original:
            merged = list(current or [])
        elif key in patch:
            merged = _without_directives(given)[1]
        else:
            continue
        in_order, others = partition(merged, order, merge_key)
        is_map = element_type(current or [], given or []) == MAP
        original[key] = in_element_order(
            in_order, others, order, server_order, merge_key, is_map=is_map
        )
        patch.pop(key, None)


# -- lists


def _merge_list_field(
    field: Schema, current: list[Any], given: list[Any], *, is_deletion: bool
) -> list[Any]:
    """The merged list. `current` is the caller's to lose: see `_merge_list`."""
    if is_deletion or _strategy(field) == "merge":
        return _merge_list(field, current, given, is_deletion=is_deletion)
    return given


def _merge_list(
    field: Schema, original: list[Any], patch: list[Any], *, is_deletion: bool
) -> list[Any]:
    """The merged list, in order.

    Upstream deletes and appends within the array that holds the original, and then orders
    by that array when there is an order directive; so `original` is left as it would be.
    """
    if not original and not patch:
        return original
    merge_key = field.patch_merge_key
    is_map = element_type(original, patch) == MAP
    if not is_map:
        if is_deletion:
            gone = {identity(item) for item in patch}
            return [item for item in original if identity(item) not in gone]
        merged = deduplicated(original + patch)
    else:
        if not merge_key:
            raise unexpected(f"cannot merge lists without merge key for {_element_kind(field)}")
        array = original
        original, patch = _apply_element_directives(array, patch, merge_key)
        merged = _merge_elements(field.items, original, patch, merge_key)
        if len(original) < len(array):
            array[len(original) :] = [*merged[len(original) :], *array[len(original) :]][
                : len(array) - len(original)
            ]
    given, others = partition(merged, patch, merge_key)
    return in_element_order(given, others, patch, original, merge_key, is_map=is_map)


def _apply_element_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Carry out `$patch` of elements; the original and the patch that are left to merge."""
    plain: list[Any] = []
    gone: dict[Any, int] = {}
    is_replacement = False
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                if merge_key not in item:
                    raise no_merge_key(item, merge_key)
                gone.setdefault(identity(item[merge_key]), len(gone))
            case "replace":
                is_replacement = True
            case "merge":
                raise unexpected("merging lists cannot yet be specified in the patch")
            case directive:
                raise _unknown_directive(directive, item)
    if gone:
        original = _delete_elements(original, gone, merge_key)
    return (plain, []) if is_replacement else (original, plain)


def _delete_elements(array: list[Any], gone: dict[Any, int], merge_key: str) -> list[Any]:
    """The elements without those that are gone, by merge key, in the order of their going.

    What is left moves to the front of the array, once for each that goes, as it does upstream;
    what is behind it stays as it was then.
    """
    turns: list[list[int]] = [[] for _ in gone]
    for index, item in enumerate(array):
        turn = gone.get(identity(item[merge_key])) if merge_key in item else None
        if turn is not None:
            turns[turn].append(index)
    dead = {index for indexes in turns for index in indexes}
    left = [item for index, item in enumerate(array) if index not in dead]
    before, after = list(range(-1, len(array))), list(range(1, len(array) + 2))
    tail: list[Any] = []
    for indexes in turns:
        at = before[len(array)]
        for _ in indexes:
            tail.append(array[at])
            at = before[at]
        for index in indexes:
            after[before[index]], before[after[index]] = after[index], before[index]
    array[len(left) :] = reversed(tail)
    array[: len(left)] = left
    return left


def _merge_elements(
    element: Schema | None, original: list[Any], patch: list[Any], merge_key: str
) -> list[Any]:
    out = list(original)
    places: dict[Any, deque[int]] = {}
    for index, item in enumerate(out):
        if merge_key in item:
            places.setdefault(identity(item[merge_key]), deque()).append(index)
    for item in patch:
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        name = identity(item[merge_key])
        there = places.setdefault(name, deque())
        if not there:
            there.append(len(out))
            out.append(item)
            continue
        merged = out[there[0]] = _merge_map(element, out[there[0]], item)
        if merge_key not in merged:  # it was null
            there.popleft()
    return out


# -- what the schema says


def _list_name(directive: str, prefix: str, refusal: str) -> str:
    head, slash, name = directive.partition("/")
    if not slash or head != prefix:
        raise BadRequest(refusal)
    return name


def _field(schema: Schema | None, key: str) -> Schema:
    """The schema of a member, matched as Go's decoder matches names."""
    if schema is not None and is_custom(schema):
        return member(schema, key)
    if schema is None or schema.additional is not None or schema.type not in ("object", ""):
        raise unexpected(
            "merging an object in json but data type is not struct, instead is: " + _go_kind(schema)
        )
    field = schema.properties.get(key)
    if field is None:
        folded = key.casefold()
        field = next((s for n, s in schema.properties.items() if n.casefold() == folded), None)
    if field is None:
        name = schema.ref.rpartition(".")[2]
        raise unexpected(f'unable to find api field in struct {name} for the json field "{key}"')
    return field


def _list_field(schema: Schema | None, key: str) -> Schema:
    field = _field(schema, key)
    if field.type != "array" and (field.type or not is_custom(field)):
        raise unexpected("expected slice or array type, but got: struct")
    if field.items is not None and field.items.type == "array":
        raise unexpected("unexpected slice of slice")
    return field


def _strategy(field: Schema) -> str:
    """The field's strategy; retainKeys is said by the patch, not here."""
    parts = [part for part in field.patch_strategy.split(",") if part != "retainKeys"]
    return parts[0] if parts else ""


def _go_kind(schema: Schema | None) -> str:
    if schema is None:
        return "interface"
    if schema.additional is not None:
        return "map"
    return {"array": "slice", "integer": "int64", "number": "float64", "boolean": "bool"}.get(
        schema.type, schema.type or "interface"
    )


def _element_kind(field: Schema) -> str:
    return "struct" if field.items is None or field.items.properties else _go_kind(field.items)
