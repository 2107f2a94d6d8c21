"""Static cost estimates of expressions.

Sizes come from the schema (maxLength, maxItems, maxProperties, or what fits into a
request); costs add up, multiply in loops, and stay below 2^64. The formulas are those of
Kubernetes: they decide which rules a CRD may hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.machinery.cel.check.declared import Declared, at_path
from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.cost.runtime_cost import (
    LIST_CREATE,
    MAP_CREATE,
    REGEX,
    STRUCT_CREATE,
    TRAVERSAL,
)
from pykcp.machinery.cel.front.ast import (
    ACCUMULATOR,
    CallNode,
    Comprehension,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    StructNode,
)

UNLIMITED = 2**64 - 1
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


def _cap(value: int) -> int:
    return min(value, UNLIMITED)


def scale(value: int, factor: float) -> int:
    """Rounded up, as floating-point numbers have it."""
    product = math.ceil(float(value) * factor)
    return UNLIMITED if product >= 2**64 else product


class Estimate(NamedTuple):
    """A size or a cost: at least and at most."""

    least: int
    most: int

    def plus(self, other: Estimate) -> Estimate:
        return Estimate(_cap(self.least + other.least), _cap(self.most + other.most))

    def times(self, other: Estimate) -> Estimate:
        return Estimate(_cap(self.least * other.least), _cap(self.most * other.most))

    def by(self, factor: float) -> Estimate:
        return Estimate(scale(self.least, factor), scale(self.most, factor))

    def union(self, other: Estimate) -> Estimate:
        return Estimate(min(self.least, other.least), max(self.most, other.most))


UNKNOWN = Estimate(0, UNLIMITED)
NOTHING, ONE = Estimate(0, 0), Estimate(1, 1)
Path = tuple[str, ...]


def fixed(value: int) -> Estimate:
    return Estimate(value, value)


@dataclass(slots=True)
class Entries:
    """Sizes of the keys and values in a list or map."""

    kind: str
    keys: Estimate
    values: Estimate

    def union(self, other: Entries | None) -> Entries | None:
        if other is None:
            return None
        return Entries(self.kind, self.keys.union(other.keys), self.values.union(other.values))


@dataclass(slots=True)
class Local:
    path: Path | None
    size: Estimate | None
    entries: Entries | None = None


class Arg(NamedTuple):
    """An argument as the estimates of functions see it."""

    node: Node | None
    type: Type
    path: Path | None
    size: Estimate | None


class CostEstimate(NamedTuple):
    cost: Estimate
    size: Estimate | None = None


class Estimator:
    def __init__(self, declared: Declared | None, limit: int) -> None:
        self.declared = declared
        self.limit = limit
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Estimate] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[Local]] = {}

    # --- sizes

    def declared_size(self, path: Path | None) -> Estimate | None:
        if not path:
            return None
        found = at_path(self.declared, path[1:]) if self.declared is not None else None
        if found is not None:
            return Estimate(0, min(found.max_elements, self.limit))
        return Estimate(0, self.limit) if self.limit < UNLIMITED else None

    def local(self, name: str) -> Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def path_of(self, node: Node) -> Path | None:
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.path
        return self.paths.get(id(node))

    def size(self, node: Node) -> Estimate | None:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        known = _literal_size(node)
        if known is not None:
            return known
        known = self.declared_size(self.path_of(node))
        if known is not None:
            self.sizes[id(node)] = known
            return known
        if _is_scalar(_type(node)):
            return ONE
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.size
        return None

    def size_or_unknown(self, node: Node) -> Estimate:
        return self.size(node) or UNKNOWN

    def entries_of(self, node: Node) -> Entries | None:
        known = self.entries.get(id(node))
        if known is None and isinstance(node, Ident):
            local = self.local(node.name)
            return local.entries if local is not None else None
        return known

    def argument(self, node: Node) -> Arg:
        path = self.path_of(node)
        if path and path[0] == ACCUMULATOR:
            path = None
        return Arg(node, _type(node), path, self.size(node))

    def arg_size(self, arg: Arg) -> Estimate:
        return arg.size or self.declared_size(arg.path) or UNKNOWN

    # --- costs

    def cost(self, node: Node) -> Estimate:
        match node:
            case Literal():
                return NOTHING
            case Ident():
                return self.ident(node, node.name)
            case Select():
                return self.select(node)
            case CallNode():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case StructNode():
                total = fixed(STRUCT_CREATE)
                for entry in node.entries:
                    total = total.plus(self.cost(entry.value))
                return total
            case Comprehension():
                return self.bind(node) if node.is_bind else self.comprehension(node)
            case _:
                return NOTHING

    def ident(self, node: Node, name: str) -> Estimate:
        local = self.local(name)
        path = local.path if local is not None else (name,)
        if path is not None:
            self.paths[id(node)] = path
        return ONE

    def select(self, node: Select) -> Estimate:
        if node.resolved is not None:
            return self.ident(node, node.resolved.name)
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if _type(node.operand).kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self.paths[id(node)] = (*(self.path_of(node.operand) or ()), node.field)
        return total

    def list_literal(self, node: ListExpr) -> Estimate:
        total = fixed(LIST_CREATE)
        items = Estimate(UNLIMITED if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            items = items.union(self.size_or_unknown(element))
        self.entries[id(node)] = Entries("list", ONE, items)
        return total

    def map_literal(self, node: MapExpr) -> Estimate:
        total = fixed(MAP_CREATE)
        keys = values = Estimate(UNLIMITED if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self.size_or_unknown(entry.key))
            values = values.union(self.size_or_unknown(entry.value))
        self.entries[id(node)] = Entries("map", keys, values)
        return total

    def bind(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self.push_value(node.accu_var, node.accu_init)
        total = total.plus(self.cost(node.result))
        # copied while the name still means its value
        size, entries = self.size(node.result), self.entries_of(node.result)
        self.pop(node.accu_var)
        if size is not None:
            self.sizes[id(node)] = size
        if entries is not None:
            self.entries[id(node)] = entries
        return total

    def push(self, name: str, local: Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def pop(self, name: str) -> None:
        self.locals[name].pop()

    def push_value(self, name: str, node: Node) -> None:
        self.push(name, Local(self.path_of(node), self.size(node), self.entries_of(node)))

    def push_part(self, name: str, over: Node, part: str) -> None:
        """A variable of a loop: the key, the value, or what a single one stands for."""
        entries = self.entries_of(over)
        kind = entries.kind if entries is not None else _type(over).kind
        if part == "single":
            part = "value" if kind == "list" else "key"
        size = None
        if entries is not None:
            size = entries.values if part == "value" else entries.keys
        names = ("@items", "@indices") if kind == "list" else ("@values", "@keys")
        step = names[0] if part == "value" else names[1]
        self.push(name, Local((*(self.path_of(over) or ()), step), size))

    def comprehension(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self.push_value(node.accu_var, node.accu_init)
        if node.iter_var2:
            self.push_part(node.iter_var, node.iter_range, "key")
            self.push_part(node.iter_var2, node.iter_range, "value")
        else:
            self.push_part(node.iter_var, node.iter_range, "single")
        turn = self.cost(node.condition).plus(self.cost(node.step))
        self.pop(node.iter_var)
        if node.iter_var2:
            self.pop(node.iter_var2)
        total = total.plus(self.cost(node.result))
        self.pop(node.accu_var)
        count = self.size_or_unknown(node.iter_range)
        total = total.plus(count.times(turn))
        if isinstance(node.accu_init, Literal):
            self.sizes[id(node)] = self.size_or_unknown(node.accu_init)
        elif isinstance(node.accu_init, ListExpr | MapExpr):
            self.sizes[id(node)] = count
            entries = self.entries_of(node.step)
            if entries is not None:
                self.entries[id(node)] = entries
        return total

    def call(self, node: CallNode) -> Estimate:
        from pykcp.machinery.cel.cost.estimate_calls import call_estimate

        if node.function == "dyn":
            return self.dyn(node)
        costs = [self.cost(a) for a in node.args]
        args = [self.argument(a) for a in node.args]
        if not node.overloads:
            return NOTHING
        total = NOTHING
        target = None
        if node.target is not None:
            total = self.cost(node.target)
            target = self.argument(node.target)
        combined = Estimate(UNLIMITED, 0)
        size: Estimate | None = None
        for overload in node.overloads:
            found = call_estimate(self, node, overload, target, args, costs)
            combined = combined.union(found.cost)
            if found.size is not None:
                size = found.size if size is None else size.union(found.size)
            if overload in ("index_list", "index_map"):
                entries = self.entries_of(node.args[0])
                size = entries.values if entries is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = (*(self.path_of(node.args[0]) or ()), step)
            if size is None:
                size = self.size(node)
        if size is not None:
            self.sizes[id(node)] = size
        return total.plus(combined)

    def dyn(self, node: CallNode) -> Estimate:
        cost = self.cost(node.args[0])
        size, entries = self.size(node.args[0]), self.entries_of(node.args[0])
        if size is not None:
            self.sizes[id(node)] = size
        if entries is not None:
            self.entries[id(node)] = entries
        return ONE.plus(cost)


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


def _is_scalar(t: Type) -> bool:
    if t.kind == "opaque" and t.name == "optional_type":
        return _is_scalar(t.params[0])
    return t.kind in _SCALARS


def _literal_size(node: Node) -> Estimate | None:
    if isinstance(node, Literal):
        return fixed(len(node.value)) if isinstance(node.value, str | bytes) else ONE
    if isinstance(node, ListExpr):
        return fixed(len(node.elements))
    if isinstance(node, MapExpr):
        return fixed(len(node.entries))
    return None


def estimate(root: Node, declared: Declared | None, limit: int) -> Estimate:
    """The cost of a checked expression whose `self` is declared so."""
    return Estimator(declared, limit).cost(root)


__all__ = ["REGEX", "TRAVERSAL", "UNLIMITED", "Estimate", "estimate"]
