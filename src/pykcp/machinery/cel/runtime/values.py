"""CEL values that Python has no type for, and the errors of evaluation.

bool, int, float, str, bytes, None, list and dict stand for themselves. Keys of maps
that are booleans are kept as `BoolKey`, since Python takes True and 1 for equal.
"""

from __future__ import annotations

from typing import Any

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1


class CelError(Exception):
    """An expression has no value."""


class EvalError(CelError):
    """Evaluation failed; the text is what CEL's error value would say."""


class CostExceeded(CelError):
    """The expression used up what one call may cost. No operator absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Panic(CelError):
    """The reference implementation would crash here and report that. Nothing absorbs it."""


class UInt(int):
    """An unsigned integer; arithmetic on it must be checked and wrapped again."""

    __slots__ = ()


class Duration:
    """Nanoseconds, signed."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Duration) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Duration) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Duration) -> bool:
        return self.nanos >= other.nanos


class Timestamp:
    """Nanoseconds since 1970 and the offset from UTC it was written with, in seconds."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Timestamp) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Timestamp) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Timestamp) -> bool:
        return self.nanos >= other.nanos


class TypeValue:
    """A type as a value: `int`, `type(x)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("type", self.name))

    def __str__(self) -> str:
        return self.name


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any, present: bool = True) -> None:
        self.value = value
        self.present = present

    def get(self) -> Any:
        if not self.present:
            raise EvalError("optional.none() dereference")
        return self.value


NONE = Optional(None, present=False)


class BoolKey:
    """A boolean as the key of a map."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "true" if self.value else "false"


TRUE_KEY, FALSE_KEY = BoolKey(True), BoolKey(False)


def map_key(value: Any) -> Any:
    """The key under which a map holds `value`."""
    if value is True:
        return TRUE_KEY
    if value is False:
        return FALSE_KEY
    return value


def key_value(key: Any) -> Any:
    """The value that `map_key` made the key from."""
    return key.value if isinstance(key, BoolKey) else key


class ObjectValue(dict[str, Any]):
    """An object with a schema where its type is not known any more.

    Keys are escaped field names; `raw` is the JSON it was made from, whose size counts
    and whose fields without a schema still take part in comparisons.
    """

    __slots__ = ("known", "raw")

    def __init__(self, fields: dict[str, Any], raw: dict[str, Any], known: frozenset[str]) -> None:
        super().__init__(fields)
        self.raw = raw
        self.known = known


class SetList(list[Any]):
    """A list of x-kubernetes-list-type set: equal in any order, added as a union."""

    __slots__ = ()


class KeyedList(list[Any]):
    """A list of x-kubernetes-list-type map: equal by key, added by key."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> Any:
        return tuple(_hashable(item.get(k)) for k in self.keys) if isinstance(item, dict) else None


class UnknownValue:
    """A value under x-kubernetes-preserve-unknown-fields: good for comparisons only."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value) is bool, value)
