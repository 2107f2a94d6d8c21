"""FieldsV1 from outside: sets of fields that a client wrote, read and put in order."""

from __future__ import annotations

from pykcp.machinery.patch.elements import BadElement, canonical_element, in_order
from pykcp.machinery.patch.fieldset import Fields, below, is_member
from pykcp.types import JSON


class BadFields(ValueError):
    """The JSON is no set of fields."""


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
        try:
            known = canonical_element(element)
        except BadElement as error:
            raise BadFields(f"parsing key as path element: {error}") from error
        if known is None:
            continue
        if not isinstance(node, (dict, type(None))):
            raise BadFields("expect { or n")
        out[known] = _parsed_node(node or {}, out.get(known))
    return out


def _parsed_node(node: Fields, twin: Fields | None) -> Fields:
    """A node, together with its twin if the same element stood there in another spelling."""
    children = _parsed(node)
    is_in = not children or "." in node
    if twin is not None:
        is_in = is_in or is_member(twin)
        children = children or below(twin)
    return {".": {}, **children} if is_in and children else children


def canonical(fields: Fields) -> Fields:
    """The same set with its elements in order at every level."""
    return {
        element: canonical(node) if (node := fields[element]) else node
        for element in in_order(fields)
    }
