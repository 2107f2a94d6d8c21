"""Dynamic dispatch: calls whose overload depends on the run-time types of the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.check.environment import EXTENDED, Overload
from pykcp.machinery.cel.library import IMPLEMENTATIONS
from pykcp.machinery.cel.runtime import operators
from pykcp.machinery.cel.runtime.kinds import fits, kind_of
from pykcp.machinery.cel.runtime.values import EvalError

_OVERLOADS: dict[str, Overload] = {
    o.id: o for overloads in EXTENDED.functions.values() for o in overloads
}
_BARE = frozenset({"contains", "startsWith", "endsWith", "matches"})
"""Functions that do not say which overload is missing."""


def call_dynamic(function: str, overloads: tuple[str, ...], args: list[Any]) -> Any:
    """Calls the first overload that takes the arguments."""
    for identifier in overloads:
        overload = _OVERLOADS[identifier]
        if all(fits(a, t) for a, t in zip(args, overload.args, strict=True)):
            return IMPLEMENTATIONS[identifier](*args)
    if function in _BARE:
        raise EvalError("no such overload")
    if function == "size":
        return operators.size(args[0])
    shown = ", ".join(kind_of(a) for a in args)
    raise EvalError(f"no such overload: {function}({shown})")


def dynamic(function: str, overloads: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *args: call_dynamic(function, overloads, list(args))
