"""A quick look at a custom resource: is there anything to prune, drop or default?

Most objects that clients send hold only known fields, no nulls and no `1.0`. These
closures find that out without building paths or changing anything; what they flag is
dealt with by `pruning` and `defaulting`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pykcp.machinery.schema.model import Schema

UNKNOWN = 1
"""Something may be unknown to the schema, or is not written as it should be."""
NULL = 2
"""There is a null somewhere."""

Scan: TypeAlias = Callable[[Any], int]

_META = frozenset(("apiVersion", "kind", "metadata"))
_PLAIN = frozenset((str, int, bool))


def compile_scan(schema: Schema) -> Scan:
    """Flags for a whole object; 0 if it can stay as it is."""
    return _Compiler().node(schema, root=True)


def _anything(_value: Any) -> int:
    return 0


def _unknown(value: Any) -> int:
    """A value without a schema may be anything, but its whole numbers become integers."""
    for item in value.values() if type(value) is dict else value:
        if type(item) in _PLAIN or item is None:
            continue
        if type(item) is float or _unknown(item):
            return UNKNOWN
    return 0


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[int, Scan | None] = {}

    def scan(self, schema: Schema | None) -> Scan | None:
        """The scan of objects and lists under a schema; None if they may not be there."""
        if schema is None:
            return None
        if id(schema) not in self._made:
            self._made[id(schema)] = self.node(schema) if _holds(schema) else None
        return self._made[id(schema)]

    def node(self, schema: Schema, *, root: bool = False) -> Scan:
        fields = {name: self.scan(child) for name, child in schema.properties.items()}
        names = frozenset(fields)
        if root or schema.embedded_resource:
            names |= _META
            fields |= dict.fromkeys(_META, _anything)
        subs = {name: scan for name, scan in fields.items() if scan is not None}
        rest = self.scan(schema.additional)
        is_map = schema.additional is not None or schema.additional_allowed is not None
        is_open = schema.preserve_unknown
        items = self.scan(schema.items)
        known = names.issuperset

        def scan(value: Any) -> int:
            if type(value) is list:
                return _scan_items(value, items)
            if not is_open and not is_map and not known(value):
                return UNKNOWN
            flags = 0
            for key, item in value.items():
                if type(item) in _PLAIN:
                    continue
                if type(item) is dict or type(item) is list:
                    sub = subs.get(key)
                    if sub is None and key not in names:
                        sub = rest if is_map else _unknown
                    if sub is None:
                        if item:
                            return UNKNOWN
                    else:
                        flags |= sub(item)
                elif item is None:
                    flags |= NULL
                else:
                    return UNKNOWN
                if flags & UNKNOWN:
                    return UNKNOWN
            return flags

        return scan


def _scan_items(value: list[Any], items: Scan | None) -> int:
    flags = 0
    for item in value:
        if type(item) in _PLAIN:
            continue
        if type(item) is dict or type(item) is list:
            if items is None:
                if item:
                    return UNKNOWN
            else:
                flags |= items(item)
                if flags & UNKNOWN:
                    return UNKNOWN
        elif item is None:
            flags |= NULL
        else:
            return UNKNOWN
    return flags


def _holds(schema: Schema) -> bool:
    """Whether values may be objects or lists with something in them."""
    return (
        bool(schema.properties)
        or schema.items is not None
        or schema.additional is not None
        or schema.additional_allowed is not None
        or schema.preserve_unknown
        or schema.embedded_resource
    )
