"""Shapes: the part of a schema that field ownership needs, and the comparison of two objects.

A shape is one of four things. A *scalar* is owned whole. A *map* (a Go struct, an object
with properties, a map) is owned key by key unless it is atomic. A *list* is owned whole
unless it is a set of scalars or a list of keyed items. *Any* is decided by the value.

Shapes hold no objects (`shaping` makes them of schema nodes). `compare` runs on every
write: subtrees that are equal are passed over at C speed, and what comes out is in stored
form already (`fieldset`), elements in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pykcp.machinery.patch import gojson
from pykcp.machinery.patch.elements import in_order, key_element, name_text, scalar_text
from pykcp.machinery.patch.fieldset import Fields
from pykcp.types import JSON

Difference: TypeAlias = tuple[Fields | None, Fields | None]
"""The nodes of what was changed or added, and of what was removed."""

ABSENT: Final = object()
"""No value at all, which is not null."""


class Untypable(Exception):
    """The object does not fit its schema where ownership needs it to."""


def same(left: JSON, right: JSON) -> bool:
    """Equality of values: 1 is 1.0, but not true."""
    return left is right or bool(left == right and _have_same_types(left, right))


def _have_same_types(left: JSON, right: JSON) -> bool:
    """Whether values that are equal for Python are equal: it takes 1 for true."""
    mine = type(left)
    if mine is not type(right):
        return bool not in (mine, type(right))
    if mine is dict:
        return all(_have_same_types(value, right[key]) for key, value in left.items())
    return mine is not list or all(map(_have_same_types, left, right))


def _are_equal(left: JSON, right: JSON, *, is_exact: bool) -> bool:
    """The same without a look at each value, if possible: `==` alone takes 1 for true."""
    if left != right:
        return False
    return is_exact or gojson.encode(left) == gojson.encode(right) or _have_same_types(left, right)


def _is_looked_at_whole(level: int) -> bool:
    """Whether values this deep are compared as they are before they are compared in parts.

    Most are equal, and that is the quick way. But what is deep down would be compared again at
    every level above it that differs; so it is done at some levels only.
    """
    return level < 4 or not level & level - 1


def _as_map(value: JSON) -> dict[str, JSON]:
    if type(value) is dict:
        return value
    if value is None:
        return {}
    raise Untypable("expected map")


def _as_list(value: JSON) -> list[JSON]:
    if type(value) is list:
        return value
    if value is None:
        return []
    raise Untypable("expected list")


class Shape:
    """How values of one schema node are owned."""

    __slots__ = ()

    def own(self, value: JSON) -> Fields:
        """The node of a value that has no counterpart: itself and all that is in it."""
        raise NotImplementedError

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        """What differs between two values, both there (null is there); None if nothing does.

        `level`: how deep they are in what is compared.
        """
        raise NotImplementedError

    def has_exact_equality(self) -> bool:
        """Whether `==` distinguishes all values of this shape; in Python 1 == True."""
        return True


class ScalarShape(Shape):
    """A number, a string, a boolean, or any of them."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """numeric, string, boolean or untyped."""

    def own(self, value: JSON) -> Fields:
        return {}

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        return None if same(left, right) else ({}, None)


class MapShape(Shape):
    """Named fields, arbitrary keys, or both."""

    __slots__ = ("_is_exact", "is_atomic", "is_structured", "members", "names", "others")

    def __init__(
        self,
        members: Mapping[str, Any],
        names: Mapping[str, Any],
        others: Shape | None,
        *,
        is_atomic: bool = False,
        is_structured: bool = False,
        is_exact: bool | None = None,
    ) -> None:
        self.members = members
        """The shape of each key; `members[key]` is None for a key that is not declared."""
        self.names = names
        """The declared fields."""
        self.others = others
        """The shape of what is not declared; None if that is not allowed."""
        self.is_atomic = is_atomic
        self.is_structured = is_structured
        """A Go struct upstream: a null field is as good as an absent one."""
        self._is_exact = is_exact

    def own(self, value: JSON) -> Fields:
        if type(value) is not dict:
            value = _as_map(value)
        if not value or self.is_atomic:
            return {}
        members = self.members
        out: Fields = {".": {}}
        for name in sorted(value):
            shape = members[name]
            if type(shape) is ScalarShape:
                out["f:" + name] = {}
            elif shape is not None:
                out["f:" + name] = shape.own(value[name])
            else:
                raise Untypable(f".{name}: field not declared in schema")
        return out

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        is_leaf = self.is_atomic or not (left or right)
        if is_leaf or _is_looked_at_whole(level):
            is_equal = left == right
            if is_equal and _are_equal(left, right, is_exact=self.has_exact_equality()):
                return None
        left, right = _as_map(left), _as_map(right)
        if is_leaf:
            return {}, None
        changed: Fields = {}
        removed: Fields = {}
        self._compare_members(left, right, changed, removed, level + 1)
        if changed or removed:
            return changed or None, removed or None
        return None

    def _compare_members(
        self,
        left: dict[str, JSON],
        right: dict[str, JSON],
        changed: Fields,
        removed: Fields,
        level: int,
    ) -> None:
        members = self.members
        met = 0
        for name in sorted(right):
            shape = members[name]
            if shape is None:
                raise Untypable(f".{name}: field not declared in schema")
            item = right[name]
            if name in left:
                met += 1
                found = shape.compare(left[name], item, level)
                if found is not None:
                    if found[0] is not None:
                        changed["f:" + name] = found[0]
                    if found[1] is not None:
                        removed["f:" + name] = found[1]
            elif item is not None or not self.is_structured:
                changed["f:" + name] = shape.own(item)
        if met < len(left):
            for name, item in left.items():
                if name not in right and not (item is None and self.is_structured):
                    shape = members[name]
                    if shape is None:
                        raise Untypable(f".{name}: field not declared in schema")
                    removed["f:" + name] = shape.own(item)

    def has_exact_equality(self) -> bool:
        if self._is_exact is None:
            self._is_exact = self._finds_exact_equality()
        return self._is_exact

    def _finds_exact_equality(self) -> bool:
        return self.others is None or self.others.has_exact_equality()


class ScalarMapShape(MapShape):
    """Keys to scalars, such as labels and data: the shape of most bytes there are."""

    __slots__ = ()

    def own(self, value: JSON) -> Fields:
        if not _as_map(value) or self.is_atomic:
            return {}
        return {".": {}, **{"f:" + name: {} for name in sorted(value)}}

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        if left == right and _are_equal(left, right, is_exact=self.has_exact_equality()):
            return None
        left, right = _as_map(left), _as_map(right)
        if self.is_atomic or not (left or right):
            return {}, None
        changed: Fields = {
            "f:" + name: {}
            for name in sorted(right)
            if name not in left or not same(left[name], right[name])
        }
        removed: Fields = {"f:" + name: {} for name in left if name not in right}
        return (changed or None, removed or None) if changed or removed else None


class ListShape(Shape):
    """A list owned whole, or item by item."""

    __slots__ = ("_single", "defaults", "is_atomic", "items", "keys")

    def __init__(
        self,
        items: Shape,
        keys: tuple[str, ...] | None,
        defaults: dict[str, JSON] | None = None,
    ) -> None:
        self.items = items
        self.keys = keys
        """The fields that name an item, as declared; () for a set of scalars; None: atomic."""
        self.is_atomic = keys is None
        self.defaults = defaults or {}
        """What an item that omits a key field is taken to say there."""
        self._single = name_text(keys[0]) if keys is not None and len(keys) == 1 else ""

    def own(self, value: JSON) -> Fields:
        if not _as_list(value) or self.is_atomic:
            return {}
        out: Fields = {".": {}}
        for item in value:
            element = self.element(item)
            # Items with the same name are owned together, without what is in them.
            out[element] = {} if element in out else self.items.own(item)
        return _ordered(out) if len(out) > 2 else out

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        is_leaf = self.is_atomic or not (left or right)
        if is_leaf or _is_looked_at_whole(level):
            is_equal = left == right
            if is_equal and _are_equal(left, right, is_exact=self.has_exact_equality()):
                return None
        left, right = _as_list(left), _as_list(right)
        if is_leaf:
            return {}, None
        changed: Fields = {}
        removed: Fields = {}
        before, after = self._by_element(left), self._by_element(right)
        for element, olds in before.items():
            self._compare_items(element, olds, after.get(element, []), changed, removed, level + 1)
        for element, news in after.items():
            if element not in before:
                self._compare_items(element, [], news, changed, removed, level + 1)
        if changed or removed:
            return _ordered(changed) or None, removed or None
        return None

    def has_exact_equality(self) -> bool:
        return self.items.has_exact_equality()

    def _by_element(self, values: list[JSON]) -> dict[str, list[JSON]]:
        out: dict[str, list[JSON]] = {}
        for item in values:
            out.setdefault(self.element(item), []).append(item)
        return out

    def _compare_items(
        self,
        element: str,
        olds: list[JSON],
        news: list[JSON],
        changed: Fields,
        removed: Fields,
        level: int,
    ) -> None:
        if len(olds) == 1 and len(news) == 1:
            found = self.items.compare(olds[0], news[0], level)
            if found is not None:
                if found[0] is not None:
                    changed[element] = found[0]
                if found[1] is not None:
                    removed[element] = found[1]
        elif len(olds) > 1 and len(news) > 1:
            if not same(olds, news):
                changed[element] = {}
        else:
            # A name that several items share is a field of its own kind: it comes or
            # goes as one, and what a single item owns in detail goes or comes with it.
            if news:
                changed[element] = self.items.own(news[0]) if len(news) == 1 else {}
            if olds:
                removed[element] = self.items.own(olds[0]) if len(olds) == 1 else {}

    def element(self, item: JSON) -> str:
        """The path element that names an item."""
        if not self.keys:
            return self._set_element(item)
        if type(item) is not dict:
            if item is None:
                raise Untypable("associative list with keys may not have a null element")
            raise Untypable("associative list with keys may not have non-map elements")
        if self._single:
            key = self.keys[0]
            value = item.get(key, ABSENT)
            if value is ABSENT:
                value = self.defaults.get(key)
                if value is None:
                    raise self._omits_all()
            return f"k:{{{self._single}:{scalar_text(value)}}}"
        named = []
        for key in sorted(self.keys):
            value = item.get(key, ABSENT)
            if value is ABSENT:
                value = self.defaults.get(key)
                if value is None:
                    continue
            named.append((key, value))
        if not named:
            raise self._omits_all()
        return key_element(named)

    def _omits_all(self) -> Untypable:
        names = " ".join(f'"{key}"' for key in self.keys or ())
        return Untypable(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )

    @staticmethod
    def _set_element(item: JSON) -> str:
        kind = type(item)
        if kind is dict:
            raise Untypable("associative list without keys has an element that's a map type")
        if kind is list:
            raise Untypable("not supported: associative list with lists as elements")
        if item is None:
            raise Untypable("associative list without keys has an element that's an explicit null")
        return "v:" + scalar_text(item)


def _ordered(fields: Fields) -> Fields:
    return {element: fields[element] for element in in_order(fields)}


class AnyShape(Shape):
    """Whatever the value is."""

    __slots__ = ("lists", "maps", "scalars")

    def __init__(self, scalars: ScalarShape, lists: ListShape, maps: MapShape) -> None:
        self.scalars, self.lists, self.maps = scalars, lists, maps

    def of(self, value: JSON) -> Shape:
        """The shape that a value takes; that of a map for null."""
        if type(value) is list:
            return self.lists
        return self.maps if type(value) is dict or value is None else self.scalars

    def has_exact_equality(self) -> bool:
        return False

    def own(self, value: JSON) -> Fields:
        return self.of(value).own(value)

    def compare(self, left: JSON, right: JSON, level: int = 0) -> Difference | None:
        mine, other = self.of(left), self.of(right)
        if mine is other:
            return mine.compare(left, right, level)
        # From one kind to another: the old parts go, the new parts come, and the field
        # itself has changed, unless null stood in for an empty map.
        before = _parts(mine.own(left))
        after = _parts(other.own(right))
        if before is not None and after is not None:
            return after or None, before or None
        if before is None and after is None:
            return {}, None
        if after is None:
            return {}, before
        return ({".": {}, **after} if left is not None else after), None


def _parts(node: Fields) -> Fields | None:
    """The children of a node; None for a leaf."""
    return {e: c for e, c in node.items() if e != "."} if node else None
