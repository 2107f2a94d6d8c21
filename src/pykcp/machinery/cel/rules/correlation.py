"""Correlation of new and old values for transition rules, and whether they changed.

Objects and maps correlate by key, lists of type map by their keys, other lists not at
all. A value that did not change is not punished for a rule that is newer than itself:
that is ratcheting.
"""

from __future__ import annotations

from typing import Any

from pykcp.machinery.schema.model import Schema

_UNKNOWN = object()


class KeyedItems:
    """The items of an old list, found by the keys of a new item."""

    def __init__(self, schema: Schema, items: Any) -> None:
        self._keys = schema.list_keys if schema.list_type == "map" else ()
        self._found: dict[Any, Any] = {}
        if self._keys and isinstance(items, list):
            for item in items:
                identity = self._identity(item)
                if identity is not None:
                    self._found.setdefault(identity, item)

    def get(self, item: Any) -> Any:
        if not self._found:
            return None
        identity = self._identity(item)
        return self._found.get(identity) if identity is not None else None

    def _identity(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return None
        parts: list[Any] = []
        for name in self._keys:
            value = item.get(name, _UNKNOWN)
            if not isinstance(value, bool | float | int | str):
                return None
            parts.append((type(value) is bool, value))
        return tuple(parts)


class Correlation:
    """A new value and the old one that it follows, with what is known of their schema."""

    __slots__ = ("_equal", "_items", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: Schema) -> None:
        self.new = new
        self.old = old
        self.schema = schema
        self._equal: bool | None = None
        self._items: KeyedItems | None = None

    def key(self, name: str) -> Correlation | None:
        if not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        if name not in self.new or name not in self.old:
            return None
        schema = self.schema.properties.get(name) or self.schema.additional
        if schema is None:
            return None
        return Correlation(self.new[name], self.old[name], schema)

    def index(self, position: int) -> Correlation | None:
        if not isinstance(self.new, list) or not isinstance(self.old, list):
            return None
        if self.schema.list_type != "map" or self.schema.items is None:
            return None
        if self._items is None:
            self._items = KeyedItems(self.schema, self.old)
        old = self._items.get(self.new[position])
        return Correlation(self.new[position], old, self.schema.items) if old is not None else None

    def unchanged(self) -> bool:
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if new is None or old is None:
            return new is old
        if isinstance(new, list) or isinstance(old, list):
            if not isinstance(new, list) or not isinstance(old, list) or len(new) != len(old):
                return False
            return self._compare_items(new, old)
        if isinstance(new, dict) or isinstance(old, dict):
            if not isinstance(new, dict) or not isinstance(old, dict) or len(new) != len(old):
                return False
            children = (self.key(name) for name in new)
            return all(c is not None and c.unchanged() for c in children)
        return type(new) is type(old) and bool(new == old)

    def _compare_items(self, new: list[Any], old: list[Any]) -> bool:
        for position in range(len(new)):
            item = self.index(position)
            if item is None:
                return self._items is None and new == old
            if not item.unchanged():
                return False
        return True


class Ratchet:
    """The correlation of a node, or of the nearest one above that has any."""

    __slots__ = ("current", "nearest")

    def __init__(self, current: Correlation | None, nearest: Correlation | None = None) -> None:
        self.current = current
        self.nearest = nearest

    def key(self, name: str) -> Ratchet:
        if self.current is None:
            return self
        if self.nearest is None and name in ("apiVersion", "kind"):
            return Ratchet(None)  # both are converted to the same: a change cannot be seen
        return Ratchet(self.current.key(name), self.current)

    def index(self, position: int) -> Ratchet:
        if self.current is None:
            return self
        return Ratchet(self.current.index(position), self.current)

    def without_current(self) -> Ratchet:
        return Ratchet(None, self.nearest)

    def holds(self) -> bool:
        """Whether an error here is only worth a warning."""
        if self.current is not None:
            return self.current.unchanged()
        return self.nearest is not None and self.nearest.unchanged()
