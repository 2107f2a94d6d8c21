"""The types that a structural schema declares, with the sizes that bound their cost.

Values stay the JSON they are while their type is known; a `Declared` says how to read
such a value: which properties an object has, what a string of format date-time is, how
two of them compare.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.front.escaping import escape, is_reserved
from pykcp.machinery.schema.model import Schema

MAX_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request that is accepted: no value can be larger."""

_MIN_SIZE = {"duration": 3, "date": 12, "date-time": 21}
_MAX_SIZE = {"duration": 32, "date": 12, "date-time": 32}
_KINDS = {"duration": "duration", "date": "timestamp", "date-time": "timestamp", "byte": "bytes"}


class Declared:
    """A node of a schema as CEL sees it.

    `kind` is dyn, list, map, object, or the name of a scalar type; `max_elements` bounds
    its size in characters, items or entries; `min_size` is the least number of bytes it
    takes in JSON. `exact` means that two values are equal in CEL if and only if their JSON is.
    """

    __slots__ = (
        "elem", "exact", "fields", "format", "kind", "max_elements", "min_size", "properties",
        "required", "schema", "type",
    )  # fmt: skip

    def __init__(self, kind: str, schema: Schema, min_size: int, max_elements: int = 0) -> None:
        self.kind = kind
        self.schema = schema
        self.format = schema.format
        self.min_size = min_size
        self.max_elements = max_elements
        self.elem: Declared | None = None
        self.fields: dict[str, Declared] = {}
        self.properties: dict[str, str] = {}
        """Escaped names to property names."""
        self.required: frozenset[str] = frozenset()
        self.exact = kind not in ("duration", "timestamp", "bytes")
        self.type: Type = types.SCALARS.get(kind, types.DYN)

    def field(self, name: str) -> str | None:
        """The key in `fields` for a name in an expression: keywords need no escaping there."""
        if name in self.fields:
            return name
        keyword = f"__{name}__"
        return keyword if is_reserved(name) and keyword in self.fields else None

    @property
    def is_plain(self) -> bool:
        """Whether the JSON value is the CEL value as it stands."""
        if self.kind == "list":
            assert self.elem is not None
            return self.elem.is_plain and self.schema.list_type not in ("set", "map")
        if self.kind == "map":
            assert self.elem is not None
            return self.elem.is_plain
        return self.kind in ("string", "int", "bool", "dyn")


def declare(schema: Schema, root: bool, depth: int = 0) -> Declared | None:
    """What `schema` declares, or None when CEL cannot see such values.

    `root` marks the root of a resource, where kind, apiVersion and the two names of the
    metadata can be seen without being declared.
    """
    if depth > 200:
        return None  # a schema that contains itself
    if schema.int_or_string:
        return Declared("dyn", schema, 1, _string_bound(schema))
    if root:
        schema = with_object_meta(schema)
    build = _BUILDERS.get(schema.type)
    return build(schema, depth) if build is not None else None


def _array(schema: Schema, depth: int) -> Declared | None:
    if schema.items is None:
        return None
    elem = declare(schema.items, schema.items.embedded_resource, depth + 1)
    if elem is None:
        return None
    limit = (MAX_REQUEST - 2) // (elem.min_size + 1)
    if schema.max_items is not None:
        limit = max(schema.max_items, 0)
    out = Declared("list", schema, 2, limit)
    out.elem = elem
    out.exact = elem.exact and schema.list_type not in ("set", "map")
    out.type = types.list_of(elem.type)
    return out


def _object(schema: Schema, depth: int) -> Declared | None:
    if schema.additional is not None:
        return _map(schema, schema.additional, depth)
    out = Declared("object", schema, 2)
    size = 2
    out.exact = not schema.preserve_unknown
    for name, prop in schema.properties.items():
        field = declare(prop, prop.embedded_resource, depth + 1)
        if field is None:
            out.exact = False
            continue
        identifier = escape(name)
        if identifier is not None:
            out.fields[identifier] = field
            out.properties[identifier] = name
        out.exact = out.exact and field.exact and not prop.nullable and identifier is not None
        if name in schema.required and not prop.has_default:
            size += len(name.encode()) + field.min_size + 4
    out.min_size = size
    out.type = types.struct("object", out)
    return out


def _map(schema: Schema, values: Schema, depth: int) -> Declared | None:
    elem = declare(values, values.embedded_resource, depth + 1)
    if elem is None:
        return None
    limit = (MAX_REQUEST - 2) // (elem.min_size + 6)
    if schema.max_properties is not None:
        limit = max(schema.max_properties, 0)
    out = Declared("map", schema, 2, limit)
    out.elem = elem
    out.exact = elem.exact
    out.type = types.map_of(types.STRING, elem.type)
    return out


def _string(schema: Schema, _depth: int) -> Declared:
    kind = _KINDS.get(schema.format, "string")
    min_size = _MIN_SIZE.get(schema.format, 2)
    if kind in ("duration", "timestamp"):
        return Declared(kind, schema, min_size, _MAX_SIZE[schema.format])
    if kind == "bytes":
        limit = MAX_REQUEST - 2 if schema.max_length is None else max(schema.max_length, 0)
        return Declared(kind, schema, min_size, limit)
    limit = _string_bound(schema)
    if schema.max_length is None and schema.enum:
        limit = max((len(e.encode()) for e in schema.enum if isinstance(e, str)), default=0)
    return Declared(kind, schema, min_size, limit)


def _string_bound(schema: Schema) -> int:
    """Bytes of the longest string: maxLength counts characters of up to four bytes."""
    return MAX_REQUEST - 2 if schema.max_length is None else max(schema.max_length, 0) * 4


_BUILDERS: dict[str, Callable[[Schema, int], Declared | None]] = {
    "array": _array,
    "object": _object,
    "string": _string,
    "boolean": lambda schema, _: Declared("bool", schema, 4),
    "number": lambda schema, _: Declared("double", schema, 1),
    "integer": lambda schema, _: Declared("int", schema, 1),
}
_TEXT = Schema(type="string")
_META = Schema(type="object", properties={"name": _TEXT, "generateName": _TEXT})


def with_object_meta(schema: Schema) -> Schema:
    """The schema of a resource's root, with what is always visible there added."""
    props = schema.properties
    meta = props.get("metadata")
    if (
        all(n in props and props[n].type == "string" for n in ("kind", "apiVersion"))
        and meta is not None
        and meta.type == "object"
        and all(
            n in meta.properties and meta.properties[n].type == "string"
            for n in ("name", "generateName")
        )
    ):
        return schema
    return Schema(
        type=schema.type,
        format=schema.format,
        properties={**props, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _META},
        required=schema.required,
        additional=schema.additional,
        preserve_unknown=schema.preserve_unknown,
        embedded_resource=schema.embedded_resource,
        map_type=schema.map_type,
        nullable=schema.nullable,
        rules=schema.rules,
    )


def name_types(declared: Declared, name: str) -> Declared:
    """Gives every object type below `declared` its dotted name, as errors show it."""
    if declared.kind == "object":
        if declared.type.name != "object":
            name = declared.type.name
        declared.type = types.struct(name, declared)
        for field, child in declared.fields.items():
            name_types(child, f"{name}.{field}")
    elif declared.kind == "map" and declared.elem is not None:
        declared.type = types.map_of(types.STRING, name_types(declared.elem, f"{name}.@elem").type)
    elif declared.kind == "list" and declared.elem is not None:
        declared.type = types.list_of(name_types(declared.elem, f"{name}.@idx").type)
    return declared


def at_path(root: Declared, path: tuple[str, ...]) -> Declared | None:
    """Follows a path of field names, @items, @values and @keys."""
    here: Declared | None = root
    for step in path:
        if here is None:
            return None
        if step in ("@items", "@values"):
            here = here.elem
        elif step == "@keys":
            here = _KEY if here.kind == "map" else None
        else:
            here = here.fields.get(step)
    return here


_KEY = Declared("string", _TEXT, 2)
