"""Shapes made of schemas: which lists are keyed, which maps are whole, what is free.

The shape of a kind is made on first use, property by property, and each schema node is
made into one shape however often it is met. Fields below an object that keeps unknown
fields may be anything too, down to the next named type.
"""

from __future__ import annotations

from typing import Any, Final

from pykcp.machinery.patch.shapes import (
    AnyShape,
    ListShape,
    MapShape,
    ScalarMapShape,
    ScalarShape,
    Shape,
)
from pykcp.machinery.schema.model import Schema


class _Members(dict[str, Any]):
    """Shapes by key, made when first asked for; undeclared keys are not remembered."""

    __slots__ = ("_declared", "_make", "_others")

    def __init__(self, make: _Maker, declared: dict[str, Schema], others: Shape | None) -> None:
        super().__init__()
        self._make, self._declared, self._others = make, declared, others

    def __missing__(self, name: str) -> Shape | None:
        schema = self._declared.get(name)
        if schema is None:
            return self._others
        shape = self._make.shape(schema)
        self[name] = shape
        return shape


class _SchemaMap(MapShape):
    """A map that finds out from its schema whether `==` will do, when it is first asked."""

    __slots__ = ("_declared",)

    def __init__(self, declared: dict[str, Schema], *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._declared = declared

    def _finds_exact_equality(self) -> bool:
        return super()._finds_exact_equality() and _are_typed_throughout(self._declared)


_RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_FIELDS_V1: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"


class _Maker:
    """Makes shapes of the nodes of one kind's schema."""

    def __init__(self, metadata: Schema | None, *, structured: bool, preserving: bool) -> None:
        self._metadata = metadata
        self._structured = structured
        self._preserving = preserving
        """Whether nodes made here keep unknown fields, as an ancestor asked."""
        self._other: _Maker | None = None
        """The maker with the opposite view of unknown fields."""
        self._made: dict[int, tuple[Schema, Shape]] = {}
        """One shape for a schema node, however often it is met (it is kept for its id)."""

    def _inside(self, schema: Schema) -> _Maker:
        preserving = (self._preserving and not schema.ref) or schema.preserve_unknown
        if preserving == self._preserving:
            return self
        if self._other is None:
            self._other = _Maker(self._metadata, structured=self._structured, preserving=preserving)
            self._other._other = self
        return self._other

    def shape(self, schema: Schema) -> Shape:
        """The shape of a node, made once."""
        maker = self._inside(schema)
        made = maker._made.get(id(schema))
        if made is None:
            made = maker._made[id(schema)] = schema, maker._new(schema)
        return made[1]

    def _new(self, schema: Schema) -> Shape:
        if schema.ref == _RAW_EXTENSION:
            return UNTYPED_ATOMIC
        if schema.ref == _QUANTITY or schema.format == "quantity":
            return ScalarShape("untyped")
        match schema.type:
            case "object":
                return self._map(schema)
            case "array":
                return self._list(schema)
            case "integer" | "number":
                return ScalarShape("numeric")
            case "boolean":
                return ScalarShape("boolean")
            case "string":
                return ScalarShape("string" if schema.format in ("", "byte") else "untyped")
        return AnyShape(ScalarShape("untyped"), self._list(schema), self._map(schema))

    def _map(self, schema: Schema) -> MapShape:
        declared = fields = _fields(schema)
        if schema.embedded_resource and self._metadata is not None:
            text = Schema(type="string")
            declared = {
                **declared, "apiVersion": text, "kind": text, "metadata": self._metadata,
            }  # fmt: skip
        others: Shape | None = None
        if schema.additional is not None:
            others = self.shape(schema.additional)
        elif schema.additional_allowed is not None:
            others = DEDUCED if schema.additional_allowed else None
        elif self._preserving or not fields:
            others = DEDUCED
        is_atomic = schema.map_type == "atomic"
        members = _Members(self, declared, others)
        if isinstance(others, ScalarShape) and not declared:
            return ScalarMapShape(members, declared, others, is_atomic=is_atomic)
        is_structured = self._structured and bool(fields)
        return _SchemaMap(
            declared, members, declared, others, is_atomic=is_atomic, is_structured=is_structured
        )

    def _list(self, schema: Schema) -> ListShape:
        keys = _list_keys(schema)
        if schema.items is None:
            return ListShape(UNTYPED_ATOMIC, keys)
        fields = schema.items.properties
        defaults = {
            key: fields[key].default
            for key in keys or ()
            if key in fields and fields[key].has_default
        }
        return ListShape(self.shape(schema.items), keys, defaults)


def _are_typed_throughout(declared: dict[str, Schema]) -> bool:
    """Whether no node that can be reached takes both numbers and booleans."""
    seen: set[int] = set()
    todo = list(declared.values())
    while todo:
        node = todo.pop()
        if id(node) in seen or node.ref == _FIELDS_V1 or _is_int_or_string(node):
            continue
        seen.add(id(node))
        is_free = node.type == "object" and not node.properties and node.additional is None
        is_free = is_free or bool(node.additional_allowed)
        if not node.type or node.preserve_unknown or is_free or node.embedded_resource:
            return False
        todo.extend(_fields(node).values())
        todo.extend(n for n in (node.additional, node.items) if n is not None)
    return True


def _fields(schema: Schema) -> dict[str, Schema]:
    """The declared fields; a definition may restrict some of metadata, which has them all."""
    return schema.properties if schema.component is None else schema.component.properties


def _is_int_or_string(schema: Schema) -> bool:
    return schema.int_or_string or schema.format == "int-or-string"


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    match schema.list_type:
        case "map":
            return schema.list_keys
        case "set":
            return ()
        case "atomic":
            return None
    if schema.patch_strategy in ("merge", "merge,retainKeys"):
        return (schema.patch_merge_key,) if schema.patch_merge_key else ()
    return None


def _free(*, granular: bool) -> AnyShape:
    """Values that no schema describes: owned whole, or maps key by key."""
    shape = AnyShape.__new__(AnyShape)
    atomic = shape if not granular else UNTYPED_ATOMIC
    members = _Members(_Maker(None, structured=False, preserving=True), {}, shape)
    maps = MapShape(members, {}, shape, is_atomic=not granular, is_exact=False)
    AnyShape.__init__(shape, ScalarShape("untyped"), ListShape(atomic, None), maps)
    return shape


UNTYPED_ATOMIC: Final = _free(granular=False)
DEDUCED: Final = _free(granular=True)


def shape_of(schema: Schema, *, structured: bool) -> MapShape:
    """The shape of a kind's objects.

    `structured` kinds are Go types upstream, the others (custom resources) are free maps
    that a schema describes; the difference shows in what null and empty mean.
    """
    metadata = schema.properties.get("metadata")
    made = _Maker(metadata, structured=structured, preserving=False).shape(schema)
    if isinstance(made, AnyShape):
        return made.maps
    assert isinstance(made, MapShape), "the schema of a kind is an object"
    return made
