"""What a value is at run time, where its type was not known before."""

from __future__ import annotations

from typing import Any

from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.runtime.values import (
    BoolKey,
    Duration,
    EvalError,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    UnknownValue,
)

_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    BoolKey: "bool",
    UnknownValue: "unknown",
}
_GO_NAMES = {
    "bool": "types.Bool", "int": "types.Int", "uint": "types.Uint", "double": "types.Double",
    "string": "types.String", "bytes": "types.Bytes", "null_type": "types.Null",
    "google.protobuf.Timestamp": "types.Timestamp", "google.protobuf.Duration": "types.Duration",
    "optional_type": "*types.Optional", "type": "*types.Type",
}  # fmt: skip
_STATIC = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


def kind_of(value: Any) -> str:
    """The name of the value's type, as `type(value)` prints it."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "map"
    name = getattr(value, "cel_type", None)
    if name is None:
        raise EvalError(f"unsupported conversion to ref.Val: ({type(value).__name__})")
    assert isinstance(name, str)
    return name


def go_name(value: Any) -> str:
    """What the reference implementation calls the value's class, in a few of its errors."""
    kind = kind_of(value)
    if kind == "list":
        return "*types.concreteList"
    return _GO_NAMES.get(kind, kind)


def fits(value: Any, wanted: Type) -> bool:
    """Whether a function's argument accepts the value; for lists and maps, the first element decides."""
    if wanted.kind in ("dyn", "param"):
        return True
    kind = kind_of(value)
    if wanted.kind == "list":
        return kind == "list" and (not value or fits(value[0], wanted.params[0]))
    if wanted.kind == "map":
        if kind != "map":
            return False
        for key in value:
            return fits(key, wanted.params[0]) and fits(value[key], wanted.params[1])
        return True
    if wanted.kind == "type":
        return kind == "type"
    return kind == _STATIC.get(wanted.name, wanted.name)
