"""What an expression may refer to: functions, macros, types and variables.

An environment is built once and shared; variables are added per use. `KUBERNETES` is
the one of Kubernetes 1.36: the standard library, its own libraries, and of CEL's
extensions strings (version 2), sets, lists (version 3), optionals and comprehensions
of two variables. `EXTENDED` adds cel.bind, math and encoders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pykcp.machinery.cel.check import signatures, types
from pykcp.machinery.cel.check.declared import Declared
from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.front import macros
from pykcp.machinery.cel.front.macros import Key, Macro
from pykcp.machinery.cel.runtime.values import TypeValue


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]
    """The type variables in it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name and its type; `declared` when values are JSON of a known schema."""

    type: Type
    declared: Declared | None = None


@dataclass(frozen=True)
class Environment:
    functions: Mapping[str, tuple[Overload, ...]]
    macros: Mapping[Key, Macro]
    variables: Mapping[str, Variable] = field(default_factory=dict)
    structs: Mapping[str, Declared | Mapping[str, Type]] = field(default_factory=dict)
    """Types that may be written as literals: `Name{field: value}`."""
    struct_types: Mapping[str, Type] = field(default_factory=dict)
    resolved: dict[Any, tuple[Type, tuple[str, ...]]] = field(default_factory=dict, compare=False)
    """Calls with scalar arguments that were resolved already; kept by the checker."""

    def with_variables(self, variables: Mapping[str, Variable]) -> Environment:
        """The same with more variables; those of objects bring their types along."""
        structs = dict(self.structs)
        for variable in variables.values():
            if variable.declared is not None:
                _collect(variable.declared, structs)
        return replace(self, variables={**self.variables, **variables}, structs=structs)

    def field_type(self, struct: Type, name: str) -> Type | None:
        """The type of a field, or None when there is no such field."""
        known = struct.declared or self.structs.get(struct.name)
        if isinstance(known, Declared):
            key = known.field(name)
            return known.fields[key].type if key is not None else None
        return known.get(name) if known is not None else None

    def knows_struct(self, struct: Type) -> bool:
        return struct.declared is not None or struct.name in self.structs


def _collect(declared: Declared, into: dict[str, Any]) -> None:
    if declared.kind == "object":
        into[declared.type.name] = declared
        for child in declared.fields.values():
            _collect(child, into)
    elif declared.elem is not None:
        _collect(declared.elem, into)


def _parse_signatures(text: str) -> dict[str, list[Overload]]:
    """Reads the tables of `signatures`: a function, then its overloads, indented."""
    out: dict[str, list[Overload]] = {}
    overloads: list[Overload] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            overloads = out.setdefault(line.strip(), [])
            continue
        overloads.append(_parse_overload(line.strip()))
    return out


def _parse_overload(text: str) -> Overload:
    member = text.startswith(".")
    name, rest = text.removeprefix(".").split("(", 1)
    args_text, result_text = rest.rsplit(" -> ", 1)
    args = types.parse_type(f"list({args_text}").params if args_text != ")" else ()
    result = types.parse_type(result_text)
    found: dict[str, None] = {}
    for t in (*args, result):
        _variables_of(t, found)
    return Overload(name, member, args, result, tuple(found))


def _variables_of(t: Type, into: dict[str, None]) -> None:
    if t.kind == "param":
        into[t.name] = None
    for p in t.params:
        _variables_of(p, into)


_TYPE_NAMES = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "string": types.STRING,
    "uint": types.UINT,
    "null_type": types.NULL,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "list": types.list_of(types.param("A")),
    "map": types.map_of(types.param("A"), types.param("B")),
    "type": types.TYPE,
    "optional_type": types.optional_of(types.param("V")),
    "net.IP": types.parse_type("net.IP"),
    "net.CIDR": types.parse_type("net.CIDR"),
}

TYPE_IDENTS: dict[str, tuple[Type, TypeValue]] = {
    name: (types.type_of(t) if name != "type" else types.type_of(types.TYPE), TypeValue(name))
    for name, t in _TYPE_NAMES.items()
}


def _library(*tables: str) -> dict[str, tuple[Overload, ...]]:
    merged: dict[str, list[Overload]] = {}
    for table in tables:
        for name, overloads in _parse_signatures(table).items():
            merged.setdefault(name, []).extend(overloads)
    return {name: tuple(overloads) for name, overloads in merged.items()}


KUBERNETES = Environment(
    functions=_library(signatures.STANDARD, signatures.EXTENSIONS, signatures.KUBERNETES),
    macros={**macros.STANDARD, **macros.OPTIONAL, **macros.TWO_VARIABLES, **macros.LISTS},
)
EXTENDED = Environment(
    functions={**KUBERNETES.functions, **_library(signatures.MATH_AND_ENCODERS)},
    macros={**KUBERNETES.macros, **macros.BINDINGS, **macros.MATH},
)
