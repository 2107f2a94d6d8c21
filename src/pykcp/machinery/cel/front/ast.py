"""The tree of an expression.

Nodes are made by the parser, given types and overloads by the checker, and read by
the cost estimator and the code generator. Identity matters: every place in the
expression is a node of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykcp.machinery.cel.check.types import Type


class Node:
    """A place in the expression; `offset` is where errors about it point to."""

    __slots__ = ("depth", "folded", "offset", "type")

    def __init__(self, offset: int, depth: int = 0) -> None:
        self.offset = offset
        self.depth = depth
        self.type: Type | None = None
        self.folded: tuple[bool, Any] | None = None
        """Whether it is constant, and its value; kept by `constants`."""


class Literal(Node):
    """A constant: None, bool, int, UInt, float, str or bytes."""

    __slots__ = ("value",)

    def __init__(self, offset: int, value: Any) -> None:
        super().__init__(offset)
        self.value = value


class Ident(Node):
    """A variable, or after checking the dotted name of a type."""

    __slots__ = ("constant", "name")

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name
        self.constant: Any = None


class Select(Node):
    """`operand.field`, or with `test_only` has(operand.field).

    When the dotted name turns out to be one identifier, `resolved` is that.
    """

    __slots__ = ("field", "operand", "resolved", "test_only")

    def __init__(self, offset: int, operand: Node, field: str, test_only: bool = False) -> None:
        super().__init__(offset, operand.depth)
        self.operand = operand
        self.field = field
        self.test_only = test_only
        self.resolved: Ident | None = None


class CallNode(Node):
    """A function or operator; `target` is what stands before the dot."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, offset: int, function: str, args: list[Node], target: Node | None = None
    ) -> None:
        depth = max((a.depth for a in args), default=0)
        super().__init__(offset, max(depth, target.depth) if target is not None else depth)
        self.function = function
        self.target = target
        self.args = args
        self.overloads: tuple[str, ...] = ()


class ListExpr(Node):
    """`[a, ?b]`; `optional` holds the indices of elements that may be left out."""

    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Node], optional: frozenset[int]) -> None:
        super().__init__(offset, max((e.depth for e in elements), default=0))
        self.elements = elements
        self.optional = optional


class EntryNode:
    """`key: value` of a map literal or `field: value` of a message literal."""

    __slots__ = ("key", "offset", "optional", "value")

    def __init__(self, offset: int, key: Node, value: Node, optional: bool) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Node):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[EntryNode]) -> None:
        super().__init__(offset, max((max(e.key.depth, e.value.depth) for e in entries), default=0))
        self.entries = entries


class StructNode(Node):
    """`Name{field: value}`; the keys of its entries are string literals."""

    __slots__ = ("entries", "name")

    def __init__(self, offset: int, name: str, entries: list[EntryNode]) -> None:
        super().__init__(offset, max((e.value.depth for e in entries), default=0))
        self.name = name
        self.entries = entries


class Comprehension(Node):
    """What macros fold into: for each of the range, while `condition`, accu = step."""

    __slots__ = (
        "accu_init", "accu_var", "condition", "iter_range", "iter_var", "iter_var2",
        "result", "step",
    )  # fmt: skip

    def __init__(
        self,
        offset: int,
        *,
        iter_range: Node,
        iter_var: str,
        accu_var: str,
        accu_init: Node,
        condition: Node,
        step: Node,
        result: Node,
        iter_var2: str = "",
    ) -> None:
        parts = (iter_range, accu_init, condition, step, result)
        super().__init__(offset, max(p.depth for p in parts))
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result

    @property
    def is_bind(self) -> bool:
        """Whether it only gives a name to a value (cel.bind, optMap, sortBy)."""
        return (
            isinstance(self.iter_range, ListExpr)
            and not self.iter_range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accu_var != ACCUMULATOR
        )


ACCUMULATOR = "__result__"


def copy(node: Node) -> Node:
    """The same expression once more, as nodes of its own."""
    match node:
        case Literal():
            return Literal(node.offset, node.value)
        case Ident():
            return Ident(node.offset, node.name)
        case Select():
            out: Node = Select(node.offset, copy(node.operand), node.field, node.test_only)
        case CallNode():
            target = copy(node.target) if node.target is not None else None
            out = CallNode(node.offset, node.function, [copy(a) for a in node.args], target)
        case ListExpr():
            out = ListExpr(node.offset, [copy(e) for e in node.elements], node.optional)
        case MapExpr():
            out = MapExpr(node.offset, _copy_entries(node.entries))
        case StructNode():
            out = StructNode(node.offset, node.name, _copy_entries(node.entries))
        case Comprehension():
            out = Comprehension(
                node.offset,
                iter_range=copy(node.iter_range),
                iter_var=node.iter_var,
                iter_var2=node.iter_var2,
                accu_var=node.accu_var,
                accu_init=copy(node.accu_init),
                condition=copy(node.condition),
                step=copy(node.step),
                result=copy(node.result),
            )
        case _:
            raise TypeError(type(node))
    out.depth = node.depth
    return out


def _copy_entries(entries: list[EntryNode]) -> list[EntryNode]:
    return [EntryNode(e.offset, copy(e.key), copy(e.value), e.optional) for e in entries]


def children(node: Node) -> list[Node]:
    """The direct sub-expressions in evaluation order."""
    match node:
        case Select():
            return [] if node.resolved is not None else [node.operand]
        case CallNode():
            return [*([node.target] if node.target is not None else []), *node.args]
        case ListExpr():
            return node.elements
        case MapExpr():
            return [n for e in node.entries for n in (e.key, e.value)]
        case StructNode():
            return [e.value for e in node.entries]
        case Comprehension():
            return [node.iter_range, node.accu_init, node.condition, node.step, node.result]
        case _:
            return []


def count(node: Node) -> int:
    """How many nodes an expression consists of."""
    total, stack = 0, [node]
    while stack:
        total += 1
        stack.extend(children(stack.pop()))
    return total


def qualified_name(node: Node) -> str | None:
    """`a.b.c` when the expression is a plain chain of names."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
