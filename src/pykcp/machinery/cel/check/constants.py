"""Parts of an expression whose value does not depend on any variable."""

from __future__ import annotations

from typing import Any

from pykcp.machinery import regex
from pykcp.machinery.cel.front.ast import CallNode, ListExpr, Literal, MapExpr, Node, children
from pykcp.machinery.cel.runtime.dispatch import call_dynamic
from pykcp.machinery.cel.runtime.operators import make_map
from pykcp.machinery.cel.runtime.values import EvalError

_CONVERSIONS = frozenset((
    "bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type",
    "uint",
))  # fmt: skip


_PATTERNS = frozenset({"matches", "find", "findAll"})


class ProgramError(Exception):
    """The expression is well typed, but a constant part of it has no value."""


def fold(node: Node) -> tuple[bool, Any]:
    """Whether the node is constant, and what it is.

    Literals, lists and maps of constants, and conversions of them: just what the
    reference implementation evaluates beforehand, so that costs and errors agree.
    """
    found = node.folded
    if found is None:
        found = node.folded = _fold(node)
    return found


def plan(node: Node) -> None:
    """Raises ProgramError for a constant part that has no value or is no pattern."""
    if fold(node)[0]:
        return
    for child in children(node):
        plan(child)
    if isinstance(node, CallNode) and node.function in _PATTERNS:
        _check_pattern(node)


def _check_pattern(node: CallNode) -> None:
    nodes = [node.target, *node.args] if node.target is not None else node.args
    found, pattern = fold(nodes[1])
    text = nodes[0].type
    if not found or not isinstance(pattern, str) or text is None or text.kind != "string":
        return
    try:
        regex.compiled(pattern)
    except regex.RegexError as error:
        raise ProgramError(str(error)) from error


def _fold(node: Node) -> tuple[bool, Any]:
    match node:
        case Literal():
            return True, node.value
        case ListExpr():
            if node.optional:
                return False, None
            return _fold_all(node.elements)
        case MapExpr():
            return _fold_map(node)
        case CallNode() if (
            node.function in _CONVERSIONS and len(node.args) == 1 and not node.target
        ):
            return _fold_conversion(node)
        case CallNode(function="@in"):
            return _fold_in(node)
        case _:
            return False, None


def _fold_all(nodes: list[Node]) -> tuple[bool, Any]:
    out = []
    for node in nodes:
        found, value = fold(node)
        if not found:
            return False, None
        out.append(value)
    return True, out


def _fold_map(node: MapExpr) -> tuple[bool, Any]:
    if any(e.optional for e in node.entries):
        return False, None
    found, flat = _fold_all([n for e in node.entries for n in (e.key, e.value)])
    if not found:
        return False, None
    return True, make_map(list(zip(flat[::2], flat[1::2], strict=True)))


def _fold_conversion(node: CallNode) -> tuple[bool, Any]:
    found, value = fold(node.args[0])
    if not found:
        return False, None
    try:
        return True, call_dynamic(node.function, node.overloads, [value])
    except EvalError as error:
        raise ProgramError(str(error)) from error


def _fold_in(node: CallNode) -> tuple[bool, Any]:
    """Nothing is in an empty list."""
    if node.overloads != ("in_list",):
        return False, None
    found, value = fold(node.args[1])
    return found and value == [], False
