"""Predicts whether evaluating rules may take long, from their text and the size of an object.

The static estimate bounds the cost of an expression on any object of a given size. A unit of
cost takes a fraction of a microsecond, except in functions that are charged by the call and
read a whole value (see `work`): where one occurs, the size counts once more.
"""

from __future__ import annotations

from pykcp.machinery.cel.front.ast import CallNode, ListExpr, MapExpr, Node, children
from pykcp.machinery.cel.program import Program
from pykcp.machinery.cel.rules.schema_rules import SchemaRules

CHEAP_COST = 30_000
"""Units that are evaluated in some milliseconds."""
_READ_PER_UNIT = 64
"""Bytes of a value that are read in the time of a unit."""
_CHARGED_FAIRLY = frozenset((
    "_&&_", "_||_", "!_", "-_", "_?_:_", "_<_", "_<=_", "_>_", "_>=_", "_-_", "_*_", "_/_",
    "_%_", "_[_]", "_[?_]", "_?._", "@in", "size", "startsWith", "endsWith", "contains", "has",
    "charAt", "lowerAscii", "upperAscii", "substring", "trim", "split", "int", "uint", "double",
    "bool", "string", "orValue", "hasValue", "value", "@not_strictly_false",
))  # fmt: skip
_SCALARS = frozenset(("bool", "int", "uint", "double", "string", "bytes", "null", "timestamp"))


def may_be_expensive(evaluated: Program | SchemaRules, object_size: int) -> bool:
    """Whether evaluating this on an object of so many bytes of JSON may take long.

    `object_size` is that of the larger one of object and old object. Says yes when in doubt.
    """
    if isinstance(evaluated, SchemaRules):
        cost = evaluated.most_cost(object_size)
    else:
        cost = evaluated.bound(None, object_size)
    if cost > CHEAP_COST:
        return True
    if cost * (1 + object_size // _READ_PER_UNIT) <= CHEAP_COST:
        return False
    return not _is_charged_fairly(evaluated)


def _is_charged_fairly(evaluated: Program | SchemaRules) -> bool:
    """Whether the cost model covers all of its work; cached with the expression."""
    if evaluated.charged_fairly is None:
        programs = evaluated.programs() if isinstance(evaluated, SchemaRules) else (evaluated,)
        evaluated.charged_fairly = all(_all_charged_fairly(p.root) for p in programs)
    return evaluated.charged_fairly


def _all_charged_fairly(root: Node) -> bool:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ListExpr | MapExpr) and node.folded is not None:
            if not node.folded[0] and not all(map(_is_scalar, children(node))):
                return False
        elif isinstance(node, CallNode) and not _is_fair_call(node):
            return False
        stack += children(node)
    return True


def _is_fair_call(node: CallNode) -> bool:
    if node.function in _CHARGED_FAIRLY:
        return True
    return node.function in ("_==_", "_!=_", "_+_") and all(map(_is_scalar, node.args))


def _is_scalar(node: Node) -> bool:
    return node.type is not None and node.type.kind in _SCALARS
