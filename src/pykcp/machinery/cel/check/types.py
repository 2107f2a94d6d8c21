"""CEL's static types, and which of them are assignable to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcp.machinery.cel.check.declared import Declared


class Type:
    """A type: its kind, its name, and its parameters.

    Kinds: bool, int, uint, double, string, bytes, timestamp, duration, null, dyn, error,
    list, map, type, param, struct, opaque. `declared` is the schema behind a struct.
    """

    __slots__ = ("declared", "kind", "name", "params")

    def __init__(
        self,
        kind: str,
        name: str = "",
        params: tuple[Type, ...] = (),
        declared: Declared | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind
        self.params = params
        self.declared = declared

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.params))

    def __str__(self) -> str:
        """As errors show it."""
        if self.kind == "error":
            return "!error!"
        if self.kind == "param" or not self.params:
            return self.name
        return f"{self.name}({', '.join(str(p) for p in self.params)})"

    __repr__ = __str__


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
DYN, ERROR, TYPE = Type("dyn"), Type("error"), Type("type")

SCALARS = {
    t.name: t for t in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION, DYN)
}
_LEGACY_NULLABLE = frozenset({"opaque", "struct", "timestamp", "duration"})


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def struct(name: str, declared: Declared | None = None) -> Type:
    return Type("struct", name, (), declared)


def param(name: str) -> Type:
    return Type("param", name)


def is_optional(t: Type) -> bool:
    return t.kind == "opaque" and t.name == "optional_type"


def unwrap_optional(t: Type) -> tuple[Type, bool]:
    return (t.params[0], True) if is_optional(t) else (t, False)


def is_dyn_or_error(t: Type) -> bool:
    return t.kind in ("dyn", "error")


class Mapping:
    """What type variables stand for so far.

    A trial that fails is undone: `attempt` remembers what was bound on the way.
    """

    __slots__ = ("found", "trail")

    def __init__(self, found: dict[str, Type] | None = None) -> None:
        self.found = found if found is not None else {}
        self.trail: list[tuple[str, Type | None]] = []

    def attempt(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        """Whether the second types fit the first ones; if not, nothing is bound."""
        self.trail.clear()
        if self.all_assignable(first, second):
            return True
        for name, before in reversed(self.trail):
            if before is None:
                del self.found[name]
            else:
                self.found[name] = before
        return False

    def _set(self, name: str, t: Type) -> None:
        self.trail.append((name, self.found.get(name)))
        self.found[name] = t

    def get(self, t: Type) -> Type | None:
        return self.found.get(t.name) if t.kind == "param" else None

    def substitute(self, t: Type, params_to_dyn: bool = False) -> Type:
        known = self.get(t)
        if known is not None:
            return self.substitute(known, params_to_dyn)
        if t.kind == "param":
            return DYN if params_to_dyn else t
        if not t.params:
            return t
        return Type(
            t.kind, t.name, tuple(self.substitute(p, params_to_dyn) for p in t.params), t.declared
        )

    def assignable(self, first: Type, second: Type) -> bool:
        """Whether `second` fits where `first` is wanted; may bind variables on the way."""
        if second.kind == "param":
            valid, bound = self._bind(first, second)
            if valid:
                return True
            if bound:
                return False
        if first.kind == "param":
            return self._bind(second, first)[0]
        if is_dyn_or_error(first) or is_dyn_or_error(second):
            return True
        if first.kind == "null" or second.kind == "null":
            return _nullable(second if first.kind == "null" else first)
        if first.kind == "type":
            return second.kind == "type"
        if first.kind in ("opaque", "list", "map"):
            return (
                first.kind == second.kind
                and first.name == second.name
                and self.all_assignable(first.params, second.params)
            )
        return first.kind == second.kind and first.name == second.name

    def all_assignable(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        return len(first) == len(second) and all(
            self.assignable(a, b) for a, b in zip(first, second, strict=True)
        )

    def _bind(self, t: Type, variable: Type) -> tuple[bool, bool]:
        if t == variable:
            return True, True
        known = self.found.get(variable.name)
        if known is not None:
            if t == known:
                return True, True
            if self.assignable(t, known):
                general = most_general(t, known)
                if self._independent(variable, general):
                    self._set(variable.name, general)
                return True, True
            return False, True
        if self._independent(variable, t):
            self._set(variable.name, t)
            return True, False
        return False, False

    def _independent(self, variable: Type, within: Type) -> bool:
        """Whether `variable` does not occur in what it is about to be bound to."""
        if variable == within:
            return False
        if within.kind == "param":
            known = self.found.get(within.name)
            return known is None or self._independent(variable, known)
        return all(self._independent(variable, p) for p in within.params)


def _nullable(t: Type) -> bool:
    return t.kind in _LEGACY_NULLABLE or t.kind == "null"


def most_general(first: Type, second: Type) -> Type:
    return first if _equal_or_wider(first, second) else second


def _equal_or_wider(first: Type, second: Type) -> bool:
    if first.kind in ("dyn", "param"):
        return True
    if second.kind in ("dyn", "param") or first.kind != second.kind:
        return False
    if first.kind == "type":
        return True
    if first.kind in ("opaque", "list", "map"):
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(_equal_or_wider(a, b) for a, b in zip(first.params, second.params, strict=True))
        )
    return first == second


def parse_type(text: str) -> Type:
    """A type from its text: `list(string)`, `map(K, V)`, `optional_type(net.IP)`."""
    found, rest = _parse(text.strip())
    if rest:
        raise ValueError(text)
    return found


def _parse(text: str) -> tuple[Type, str]:
    end = 0
    while end < len(text) and text[end] not in "(),":
        end += 1
    name, rest = text[:end].strip(), text[end:]
    params: list[Type] = []
    if rest.startswith("("):
        rest = rest[1:]
        while not rest.startswith(")"):
            inner, rest = _parse(rest.lstrip(", "))
            params.append(inner)
        rest = rest[1:].lstrip()
    return _make(name, tuple(params)), rest


def _make(name: str, params: tuple[Type, ...]) -> Type:
    if name in SCALARS:
        return SCALARS[name]
    if name in ("list", "map", "type"):
        return Type(name, name, params)
    if len(name) == 1 and name.isupper():
        return param(name)
    if name in ("optional_type", "net.IP", "net.CIDR"):
        return Type("opaque", name, params)
    return struct(name.replace("authz.", "kubernetes.authorization."))
