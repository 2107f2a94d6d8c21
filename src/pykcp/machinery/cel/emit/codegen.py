"""Checked expressions to Python source.

An expression becomes one Python function of its variables. Sub-expressions become
Python expressions where they can, and statements before them where they must (a missing
key has to raise CEL's error, a comprehension is a loop). Two functions are made of every
program: the fast one, and one that counts what evaluation costs.

Values of a schema stay JSON while their declared type is known; see `boxing`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykcp.machinery.cel.check import constants
from pykcp.machinery.cel.check.declared import Declared
from pykcp.machinery.cel.check.environment import Environment
from pykcp.machinery.cel.check.types import Type, is_optional
from pykcp.machinery.cel.cost.runtime_cost import (
    BY_RESULT,
    LIST_CREATE,
    MAP_CREATE,
    STRUCT_CREATE,
    CostOf,
)
from pykcp.machinery.cel.front.ast import (
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
from pykcp.machinery.cel.runtime import arithmetic, operators
from pykcp.machinery.cel.runtime.boxing import boxer, scalar_converter
from pykcp.machinery.cel.runtime.values import NONE, CostExceeded, EvalError, Optional, Panic

_DEEP = 12
"""Levels of indentation after which a sub-expression gets a function of its own."""
_LONG = 400
"""Characters of a Python expression after which it is given a name."""
CONTAINERS = ("list", "map", "object")
_MISSING = object()


@dataclass(slots=True)
class Val:
    """The Python expression for a value.

    `fails`: evaluating it may raise. `failed`: the statements before it may have raised.
    `declared`: it is JSON of that type.
    """

    src: str
    fails: bool = False
    failed: bool = False
    declared: Declared | None = None

    @property
    def may_fail(self) -> bool:
        return self.fails or self.failed


class Generator:
    """Writes the source of one program."""

    def __init__(self, env: Environment, parameters: list[str], tracked: bool) -> None:
        self.env = env
        self.tracked = tracked
        self.lines: list[str] = []
        self.indent = 1
        self.counter = 0
        self.functions: list[str] = []
        self.globals: dict[str, Any] = {
            "EvalError": EvalError,
            "CostExceeded": CostExceeded,
            "Panic": Panic,
            "MISSING": _MISSING,
            "NONE": NONE,
            "Optional": Optional,
            **{n: getattr(operators, n) for n in _OPERATORS},
            **{n: getattr(arithmetic, n) for n in _ARITHMETIC},
        }
        self.shared: dict[int, str] = {}
        self.boxers: dict[int, str] = {}
        self.scopes: list[dict[str, tuple[str, Declared | None]]] = [
            {name: (f"v_{i}", env.variables[name].declared) for i, name in enumerate(parameters)}
        ]
        self.locals = [f"v_{i}" for i in range(len(parameters))]

    # --- writing

    def fresh(self, prefix: str = "t") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def constant(self, value: Any) -> str:
        """The name of a global that holds `value`."""
        name = self.shared.get(id(value))
        if name is None:
            name = self.fresh("g")
            self.globals[name] = value
            self.shared[id(value)] = name
        return name

    def name(self, val: Val) -> Val:
        """The value in a variable, unless it is one already."""
        if val.src.isidentifier() and val.src not in ("None", "True", "False"):
            return val
        variable = self.fresh()
        self.line(f"{variable} = {val.src}")
        self.locals.append(variable)
        return Val(variable, False, val.may_fail, val.declared)

    def shorten(self, val: Val) -> Val:
        return self.name(val) if len(val.src) > _LONG else val

    def insert(self, at: int, val: Val) -> Val:
        """Evaluates `val` where it stood, before what has been written since."""
        variable = self.fresh()
        self.lines.insert(at, "    " * self.indent + f"{variable} = {val.src}")
        self.locals.append(variable)
        return Val(variable, False, val.may_fail, val.declared)

    def charge(self, cost: int) -> None:
        if self.tracked and cost:
            self.line(f"cost[0] += {cost}")

    def charge_call(self, cost: CostOf | int, args: list[Val], result: Val) -> Val:
        """Adds what a call costs, before the call wherever the result does not matter.

        Arguments must be variables or constants.
        """
        if not self.tracked:
            return result
        if isinstance(cost, int):
            self.charge(cost)
            return result
        listed = "".join(f"{a.src}, " for a in args)
        if cost in BY_RESULT:
            result = self.name(result)
            self.line(f"cost[0] += {self.constant(cost)}(({listed}), {result.src})")
            self.line("if cost[0] > limit: raise CostExceeded()")
            return result
        self.line(f"cost[0] += {self.constant(cost)}(({listed}), None)")
        self.line("if cost[0] > limit: raise CostExceeded()")
        return self.name(result)

    def charge_present(self, val: Val) -> Val:
        """Access through an optional costs nothing when it finds nothing."""
        if not self.tracked:
            return val
        held = self.name(val)
        self.line(f"cost[0] += {held.src}.present")
        return held

    # --- values

    def sequence(self, nodes: list[Node]) -> list[Val]:
        """Several values in order: an earlier one is evaluated before a later one's statements."""
        out: list[Val] = []
        waiting: list[tuple[int, int]] = []
        """Values that may fail and are not evaluated yet, and where in the lines they stood."""
        for node in nodes:
            before = len(self.lines)
            val = self.compile(node)
            if len(self.lines) > before:
                for shift, (i, mark) in enumerate(waiting):
                    out[i] = self.insert(mark + shift, out[i])
                waiting = []
            if val.fails:
                waiting.append((len(out), len(self.lines)))
            out.append(val)
        return out

    def box(self, val: Val) -> Val:
        """The value as one that knows its type."""
        if val.declared is None or val.declared.is_plain:
            return Val(val.src, val.fails, val.failed)
        box = self.constant_boxer(val.declared)
        return Val(f"{box}({val.src})", True, val.failed)

    def constant_boxer(self, declared: Declared) -> str:
        name = self.boxers.get(id(declared))
        if name is None:
            name = self.boxers[id(declared)] = self.constant(boxer(declared))
        return name

    def boxed_sequence(self, nodes: list[Node]) -> list[Val]:
        return [self.box(v) for v in self.sequence(nodes)]

    def typed(self, src: str, declared: Declared, *, nullable: bool, failed: bool) -> Val:
        """JSON of a declared type, taken out of its container."""
        if declared.kind in CONTAINERS:
            return Val(src, False, failed, declared)
        convert = scalar_converter(declared)
        if convert is None:
            return Val(src, False, failed)
        call = f"{self.constant(convert)}({src})"
        if nullable:
            call = f"(None if {src} is None else {call})"
        return self.name(Val(call, True, failed))

    def bind(self, scope: dict[str, tuple[str, Declared | None]]) -> None:
        self.scopes.append(scope)

    def lookup(self, name: str) -> tuple[str, Declared | None]:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise KeyError(name)

    # --- nodes

    def compile(self, node: Node) -> Val:
        found, value = constants.fold(node)
        if found:
            return self.literal(value)
        if self.indent > _DEEP and not isinstance(node, Ident):
            return self.hoist(node)
        match node:
            case Ident():
                return self.ident(node)
            case Select():
                return self.select(node)
            case CallNode():
                from pykcp.machinery.cel.emit.calls import emit_call

                return self.shorten(emit_call(self, node))
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case StructNode():
                return self.struct_literal(node)
            case Comprehension():
                from pykcp.machinery.cel.emit.loops import emit_comprehension

                return emit_comprehension(self, node)
            case _:
                raise TypeError(type(node))

    def hoist(self, node: Node) -> Val:
        """A function for a part that is too deep inside: Python limits nesting."""
        name = self.fresh("part")
        arguments = [src for scope in self.scopes for src, _ in scope.values()]
        arguments = list(dict.fromkeys(a for a in arguments if a.isidentifier()))
        outer_lines, outer_indent = self.lines, self.indent
        self.lines, self.indent = [], 1
        val = self.compile(node)
        self.line(f"return {val.src}")
        parameters = ", ".join([*arguments, *(["cost", "limit"] if self.tracked else [])])
        self.functions.append("\n".join([f"def {name}({parameters}):", *self.lines]))
        self.lines, self.indent = outer_lines, outer_indent
        return self.name(Val(f"{name}({parameters})", True, True, val.declared))

    def literal(self, value: Any) -> Val:
        if value is None or isinstance(value, bool | str | bytes) or type(value) is int:
            return Val(repr(value) if type(value) is not int or value >= 0 else f"({value})")
        return Val(self.constant(value))

    def ident(self, node: Ident) -> Val:
        if node.constant is not None:
            return Val(self.constant(node.constant))
        src, declared = self.lookup(node.name)
        self.charge(1)
        if declared is not None and declared.kind not in CONTAINERS:
            return self.typed(src, declared, nullable=True, failed=True)
        return Val(src, False, False, declared)

    def select(self, node: Select) -> Val:
        if node.resolved is not None:
            return self.ident(node.resolved)
        operand = self.attribute_operand(node.operand)
        if node.test_only:
            return self.presence(node, operand)
        if is_optional(_type(node.operand)):
            return self.charge_present(self.field(operand, node.operand, node.field))
        self.charge(1)
        return self.field(operand, node.operand, node.field)

    def attribute_operand(self, node: Node) -> Val:
        """What a field or an element is taken of; a call's result costs a unit more."""
        val = self.compile(node)
        if self.tracked and not _is_attribute(node):
            self.charge(1)
        return val

    def field(self, operand: Val, node: Node, name: str) -> Val:
        declared = operand.declared
        if declared is not None and declared.kind == "object":
            operand = self.name(operand)
            variable = self.fresh()
            key = declared.field(name)
            assert key is not None
            self.line(f"{variable} = {operand.src}.get({declared.properties[key]!r})")
            self.line(f"if {variable} is None: raise EvalError({f'no such key: {name}'!r})")
            return self.typed(variable, declared.fields[key], nullable=False, failed=True)
        kind = _type(node)
        if kind.kind == "map":
            return self.entry(operand, repr(name), f"'no such key: ' + {name!r}")
        boxed = self.box(operand)
        function = "opt_select" if is_optional(kind) else "select"
        return Val(f"{function}({boxed.src}, {name!r})", True, boxed.failed)

    def entry(self, operand: Val, key: str, message: str) -> Val:
        """The value under a key of a map."""
        operand = self.name(operand)
        variable = self.fresh()
        self.line(f"{variable} = {operand.src}.get({key}, MISSING)")
        self.line(f"if {variable} is MISSING: raise EvalError({message})")
        if operand.declared is None or operand.declared.elem is None:
            return Val(variable, False, True)
        elem = operand.declared.elem
        return self.typed(variable, elem, nullable=True, failed=True)

    def presence(self, node: Select, operand: Val) -> Val:
        declared = operand.declared
        if declared is not None and declared.kind == "object":
            key = declared.field(node.field)
            assert key is not None
            prop = declared.properties[key]
            return Val(f"({operand.src}.get({prop!r}) is not None)", operand.fails, operand.failed)
        if _type(node.operand).kind == "map":
            return Val(f"({node.field!r} in {operand.src})", operand.fails, operand.failed)
        boxed = self.box(operand)
        return Val(f"has({boxed.src}, {node.field!r})", True, boxed.failed)

    def list_literal(self, node: ListExpr) -> Val:
        vals = self.boxed_sequence(node.elements)
        self.charge(LIST_CREATE)
        failed = any(v.failed for v in vals)
        fails = any(v.fails for v in vals)
        if not node.optional:
            return Val(f"[{', '.join(v.src for v in vals)}]", fails, failed)
        variable = self.fresh()
        self.line(f"{variable} = []")
        for index, val in enumerate(vals):
            if index in node.optional:
                held = self.name(Val(f"unwrap_element({val.src})"))
                self.line(f"if {held.src}.present: {variable}.append({held.src}.value)")
            else:
                self.line(f"{variable}.append({val.src})")
        return Val(variable, False, True)

    def map_literal(self, node: MapExpr) -> Val:
        vals = self.boxed_sequence([n for e in node.entries for n in (e.key, e.value)])
        self.charge(MAP_CREATE)
        failed = any(v.failed for v in vals)
        fails = any(v.fails for v in vals)
        pairs = list(zip(vals[::2], vals[1::2], strict=True))
        if any(e.optional for e in node.entries):
            return self.optional_map(node, pairs)
        if all(_type(e.key).kind in ("string", "int", "uint") for e in node.entries):
            body = ", ".join(f"{k.src}: {v.src}" for k, v in pairs)
            return Val(f"{{{body}}}", fails, failed)
        body = "".join(f"({k.src}, {v.src}), " for k, v in pairs)
        return Val(f"make_map([{body}])", True, failed)

    def optional_map(self, node: MapExpr, pairs: list[tuple[Val, Val]]) -> Val:
        variable = self.fresh()
        self.line(f"{variable} = []")
        for entry, (key, value) in zip(node.entries, pairs, strict=True):
            if entry.optional:
                held = self.name(Val(f"unwrap_entry({key.src}, {value.src})"))
                self.line(
                    f"if {held.src}.present: {variable}.append(({key.src}, {held.src}.value))"
                )
            else:
                self.line(f"{variable}.append(({key.src}, {value.src}))")
        return Val(f"make_map({variable})", True, True)

    def struct_literal(self, node: StructNode) -> Val:
        vals = self.boxed_sequence([e.value for e in node.entries])
        self.charge(STRUCT_CREATE)
        variable = self.fresh()
        self.line(f"{variable} = {{}}")
        for entry, val in zip(node.entries, vals, strict=True):
            assert isinstance(entry.key, Literal)
            if entry.optional:
                held = self.name(Val(f"unwrap_entry({entry.key.value!r}, {val.src})"))
                self.line(
                    f"if {held.src}.present: {variable}[{entry.key.value!r}] = {held.src}.value"
                )
            else:
                self.line(f"{variable}[{entry.key.value!r}] = {val.src}")
        return Val(variable, False, True)

    # --- the whole

    def program(self, root: Node) -> str:
        val = self.box(self.compile(root))
        self.line(f"return {val.src}")
        names = [src for src, _ in self.scopes[0].values()]
        head = ", ".join([*names, *(["cost", "limit"] if self.tracked else [])])
        return "\n".join([*self.functions, f"def program({head}):", *self.lines])


_OPERATORS = (
    "equal", "contains", "index", "select", "has", "opt_select", "opt_index", "make_map",
    "iterate", "iterate_pairs", "map_insert", "map_insert_all", "unwrap_element", "unwrap_entry",
    "truth", "size", "show",
)  # fmt: skip
_ARITHMETIC = (
    "less", "less_equals", "greater", "greater_equals", "add", "subtract", "multiply", "divide",
    "modulo", "divide_int", "modulo_int", "negate", "logical_not",
)  # fmt: skip


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


def _is_attribute(node: Node) -> bool:
    """Whether the reference implementation resolves it as a chain of names and keys."""
    if isinstance(node, Ident | Select):
        return True
    return isinstance(node, CallNode) and node.function in ("_[_]", "_[?_]", "_?._", "_?_:_")


def load(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Executes generated source and returns its program."""
    exec(compile(source, "<cel>", "exec"), names)  # noqa: S102 - source of our own making
    program: Callable[..., Any] = names["program"]
    return program
