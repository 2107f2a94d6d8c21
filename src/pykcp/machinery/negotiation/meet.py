"""The common schema of two: it accepts a document only if both accept it.

`meet` is commutative, associative and idempotent, as far as there is a common schema; for many
clusters it is done in the order of their names, so the order in which they were registered does
not matter. Schemas are structural, as those of CRDs.

Objects are pruned, so a property that one side does not know would be lost there without a word:
the common schema does not have it. Findings say where it is narrower than the first schema, and
where there is no common schema at all; then what comes out means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from pykcp.machinery.negotiation.findings import Findings, SchemaFinding, Severity, text_of
from pykcp.machinery.negotiation.values import (
    meet_bounds,
    meet_counts,
    meet_default,
    meet_enum,
    meet_format,
    meet_multiple,
    meet_pattern,
    meet_texts,
)
from pykcp.types import Object

ROOT: Final = "schema.openAPISchema"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_EMBEDDED = "x-kubernetes-embedded-resource"
_RULES = "x-kubernetes-validations"
_COMBINED = ("allOf", "anyOf", "oneOf", "not")
_EITHER: Final[list[Object]] = [{"type": "integer"}, {"type": "string"}]
"""What an int-or-string field says of its types, or leaves out."""

ANYTHING: Final[Object] = {_PRESERVE: True}
"""The schema that accepts every value and keeps it."""
_UNKNOWN: Final[Object] = {}
"""What `additionalProperties: true` says of a value: any, but without the content of objects, since
none of it is known."""


class Met(NamedTuple):
    schema: Object
    findings: list[SchemaFinding]

    @property
    def is_possible(self) -> bool:
        return all(finding.severity is not Severity.CONFLICT for finding in self.findings)


def meet(existing: Object, new: Object, path: str = ROOT) -> Met:
    """The common schema, and what was found on the way to it."""
    at = Findings(path)
    return Met(_structural(_meet(existing, new, at)), at.found)


def meet_all(schemas: Sequence[Object]) -> Met:
    """The common schema of several; at least one."""
    at = Findings(ROOT)
    return Met(_structural(reduce(lambda one, two: _meet(one, two, at), schemas)), at.found)


def _structural(node: Object) -> Object:
    """A structural schema names properties or has one schema for all of them, not both: the names
    are kept. Until then both are, so that the order of several clusters does not matter.
    """
    out = dict(node)
    properties, additional = out.get("properties"), out.get("additionalProperties")
    if properties:
        out["properties"] = {name: _structural(child) for name, child in properties.items()}
        out.pop("additionalProperties", None)
    elif isinstance(additional, dict):
        out["additionalProperties"] = _structural(additional)
    if isinstance(out.get("items"), dict):
        out["items"] = _structural(out["items"])
    return out


def _meet(left: Object, right: Object, at: Findings) -> Object:
    if left == right and text_of(left) == text_of(right):
        return left
    if _is_anything(right):
        return _with_texts(left, right)
    if _is_anything(left):
        at.narrowed("any value was allowed")
        return _with_texts(right, left)
    if _is_unknown(right):
        return _emptied(left, at)
    if _is_unknown(left):
        at.narrowed("any value was allowed")
        return _emptied(right, at)
    out: Object = {}
    kind = _meet_type(left, right, out, at)
    if kind is None:
        return out
    meet_texts(left, right, out)
    _meet_combined(left, right, out, at)
    meet_enum(left, right, out, at)
    _meet_nullable(left, right, out, at)
    meet_default(left, right, out, at)
    _meet_rules(left, right, out, at)
    _BY_TYPE.get(kind, _meet_nothing)(left, right, out, at)
    return out


def _is_anything(node: Object) -> bool:
    return bool(node.get(_PRESERVE)) and node.keys() <= {*_NO_CONSTRAINTS, _PRESERVE}


def _is_unknown(node: Object) -> bool:
    return node.keys() <= _NO_CONSTRAINTS


_NO_CONSTRAINTS = frozenset(("description", "title", "nullable", "default", "example"))


def _with_texts(node: Object, other: Object) -> Object:
    out = dict(node)
    meet_texts(node, other, out)
    return out


def _emptied(node: Object, at: Findings) -> Object:
    """The node without content of objects; what it requires of that cannot be met."""
    for name in node.get("required") or ():
        at.below("required", name).conflict("a required property is not in both")
    content = ("properties", "additionalProperties", _PRESERVE, "required")
    if any(node.get(name) for name in content[:-1]):
        at.at("properties").narrowed("properties have been removed")
    out = {name: value for name, value in node.items() if name not in content}
    if isinstance(out.get("items"), dict):
        out["items"] = _emptied(out["items"], at.at("items"))
    return out


def _meet_type(left: Object, right: Object, out: Object, at: Findings) -> str | None:
    mine, other = _type(left), _type(right)
    if mine == other:
        chosen = mine
    elif {mine, other} == {"integer", "number"}:
        chosen = "integer"
        if mine == "number":
            at.at("type").narrowed("only integers are allowed (was number)")
    else:
        at.at("type").conflict(f'The type changed (was "{mine}", now "{other}")')
        return None
    if chosen == _INT_OR_STRING:
        out[_INT_OR_STRING] = True
    elif chosen:
        out["type"] = chosen
    return chosen


def _type(node: Object) -> str:
    if node.get(_INT_OR_STRING):
        return _INT_OR_STRING
    found: str = node.get("type") or ""
    return found


def _meet_nothing(left: Object, right: Object, out: Object, at: Findings) -> None:
    return None


def _meet_combined(left: Object, right: Object, out: Object, at: Findings) -> None:
    for name in _COMBINED:
        mine, other = _combined(left, name), _combined(right, name)
        if not mine and not other:
            continue
        if text_of(mine) == text_of(other):
            out[name] = mine
        else:
            at.at(name).conflict(f"{name} value has been changed in an incompatible way")


def _combined(node: Object, name: str) -> Any:
    """What a node says with a keyword, or implies with another one."""
    found = node.get(name)
    if name != "anyOf" or not node.get(_INT_OR_STRING):
        return found
    if not found:
        return None if node.get("allOf") else _EITHER
    return _EITHER if all(kind in found for kind in _EITHER) and len(found) == 2 else found


def _meet_nullable(left: Object, right: Object, out: Object, at: Findings) -> None:
    if left.get("nullable") and right.get("nullable"):
        out["nullable"] = True
    elif left.get("nullable"):
        at.at("nullable").narrowed("null is no longer allowed")


def _meet_rules(left: Object, right: Object, out: Object, at: Findings) -> None:
    rules = {text_of(rule): rule for side in (left, right) for rule in side.get(_RULES) or ()}
    if not rules:
        return
    out[_RULES] = [rules[text] for text in sorted(rules)]
    if len(rules) > len(left.get(_RULES) or ()):
        at.at(_RULES).narrowed("validation rules have been added")


def _meet_string(left: Object, right: Object, out: Object, at: Findings) -> None:
    meet_format(left, right, out, at)
    meet_pattern(left, right, out, at)
    meet_counts(left, right, out, at, "Length")


def _meet_number(left: Object, right: Object, out: Object, at: Findings) -> None:
    meet_format(left, right, out, at)
    meet_bounds(left, right, out, at)
    meet_multiple(left, right, out, at)


def _meet_int_or_string(left: Object, right: Object, out: Object, at: Findings) -> None:
    _meet_string(left, right, out, at)
    meet_bounds(left, right, out, at)
    meet_multiple(left, right, out, at)


# --- arrays


def _meet_array(left: Object, right: Object, out: Object, at: Findings) -> None:
    meet_counts(left, right, out, at, "Items")
    if left.get("uniqueItems") or right.get("uniqueItems"):
        out["uniqueItems"] = True
        if not left.get("uniqueItems"):
            at.at("uniqueItems").narrowed("items have to be unique")
    _meet_list_type(left, right, out, at)
    mine, other = left.get("items"), right.get("items")
    if mine is not None and other is not None:
        out["items"] = _meet(mine, other, at.at("items"))
    elif mine is not None or other is not None:
        out["items"] = mine if other is None else other
        if mine is None:
            at.at("items").narrowed("any item was allowed")


def _meet_list_type(left: Object, right: Object, out: Object, at: Findings) -> None:
    """How items are merged is part of what a list means: it must be the same."""
    mine, other = (side.get(_LIST_TYPE) or "atomic" for side in (left, right))
    if mine != other:
        at.at(_LIST_TYPE).conflict(
            f'{_LIST_TYPE} value has been changed in an incompatible way (was "{mine}", now "{other}")'
        )
        return
    if _LIST_TYPE in left or _LIST_TYPE in right:
        out[_LIST_TYPE] = mine
    keys, others = (sorted(side.get(_LIST_KEYS) or ()) for side in (left, right))
    if keys != others:
        at.at(_LIST_KEYS).conflict(f"{_LIST_KEYS} value has been changed in an incompatible way")
    elif keys:
        out[_LIST_KEYS] = keys


# --- objects


def _meet_object(left: Object, right: Object, out: Object, at: Findings) -> None:
    meet_counts(left, right, out, at, "Properties")
    _meet_map_type(left, right, out, at)
    if left.get(_EMBEDDED) or right.get(_EMBEDDED):
        out[_EMBEDDED] = True
        if not left.get(_EMBEDDED):
            at.at(_EMBEDDED).narrowed("the value has to be an object of Kubernetes")
    properties = _meet_properties(left, right, at)
    _meet_rest(left, right, properties, out, at)
    if properties:
        out["properties"] = properties
    _meet_required(left, right, out, at)


def _meet_map_type(left: Object, right: Object, out: Object, at: Findings) -> None:
    """It decides how applies are merged, not which objects are valid: servers that publish the same
    type differ in it, so one side is enough to make a map atomic.
    """
    mine, other = (side.get(_MAP_TYPE) or "granular" for side in (left, right))
    if mine != other:
        at.at(_MAP_TYPE).warn("the map is replaced as a whole")
        out[_MAP_TYPE] = "atomic"
    elif _MAP_TYPE in left or _MAP_TYPE in right:
        out[_MAP_TYPE] = mine


def _meet_properties(left: Object, right: Object, at: Findings) -> dict[str, Object]:
    names = sorted({*(left.get("properties") or ()), *(right.get("properties") or ())})
    properties: dict[str, Object] = {}
    for name in names:
        mine, other = _property(left, name), _property(right, name)
        if mine is not None and other is not None:
            properties[name] = _meet(mine, other, at.below("properties", name))
        elif mine is not None:
            at.below("properties", name).narrowed("the property has been removed")
    return properties


def _property(node: Object, name: str) -> Object | None:
    """What a node says about a property; None if it does not have it."""
    found: Object | None = (node.get("properties") or {}).get(name)
    return _rest(node) if found is None else found


def _rest(node: Object) -> Object | None:
    """What a node says about properties that it does not name. A schema for them holds also where
    unknown fields are preserved.
    """
    additional = node.get("additionalProperties")
    if additional is True:
        return _UNKNOWN
    if isinstance(additional, dict):
        return additional
    return ANYTHING if node.get(_PRESERVE) else None


def _meet_rest(
    left: Object, right: Object, properties: dict[str, Object], out: Object, at: Findings
) -> None:
    """Properties that neither side names."""
    mine, other = _rest(left), _rest(right)
    if mine is None or other is None:
        if mine is not None:
            at.at("additionalProperties").narrowed("only known properties are allowed")
        return
    common = _meet(mine, other, at.at("additionalProperties"))
    if _is_anything(common):
        out[_PRESERVE] = True
        return
    out["additionalProperties"] = True if _is_unknown(common) else common
    if left.get(_PRESERVE) and right.get(_PRESERVE) and not properties:
        out[_PRESERVE] = True
    if properties:  # and then only they are left in the end
        at.at("additionalProperties").narrowed("only known properties are allowed")


def _meet_required(left: Object, right: Object, out: Object, at: Findings) -> None:
    required = sorted({*(left.get("required") or ()), *(right.get("required") or ())})
    if not required:
        return
    out["required"] = required
    for name in required:
        place = at.below("required", name)
        if _property(out, name) is None:
            place.conflict("a required property is not in both")
        elif name not in (left.get("required") or ()):
            place.narrowed("the property is required now")


_BY_TYPE: dict[str, Callable[[Object, Object, Object, Findings], Any]] = {
    "string": _meet_string,
    "integer": _meet_number,
    "number": _meet_number,
    "array": _meet_array,
    "object": _meet_object,
    _INT_OR_STRING: _meet_int_or_string,
}
