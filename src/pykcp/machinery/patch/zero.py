"""The object before it exists.

A write is compared with what was there. For a custom resource that is nothing; for a kind
that is a Go type upstream it is the type's zero value, in which nested structs and fields
that are always printed are there already and so are not "added" by whoever creates it.
The schema shows them: structs held by value have the default `{}`, and scalars that are
always printed have their zero as default.
"""

from __future__ import annotations

from pykcp.machinery.schema.model import Schema
from pykcp.types import Object


def zero_object(schema: Schema) -> Object:
    """The zero value of a struct, as far as its schema tells."""
    out: Object = {}
    for name, field in schema.properties.items():
        if not field.has_default:
            continue
        default = field.default
        if default == {} and isinstance(default, dict):
            out[name] = zero_object(field)
        elif default == "" or default is False or (default == 0 and type(default) is int):
            out[name] = default
    return out
