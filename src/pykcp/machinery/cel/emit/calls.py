"""Python for operators and function calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.check import constants
from pykcp.machinery.cel.check.types import is_optional
from pykcp.machinery.cel.cost.runtime_cost import cost_of
from pykcp.machinery.cel.emit.codegen import Generator, Val, _is_attribute, _type
from pykcp.machinery.cel.emit.functions import (
    arguments,
    dedent,
    finish,
    function_call,
    kinds_of,
    optional_or,
    overload_of,
)
from pykcp.machinery.cel.front.ast import CallNode, Literal, Node, Select
from pykcp.machinery.cel.runtime.values import INT_MAX, INT_MIN

_DIRECT = frozenset({"string", "int", "uint", "bool", "bytes", "timestamp", "duration"})
"""Types whose values Python compares as CEL does."""
_ORDER = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_ORDER_NAMES = {
    "_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals",
}  # fmt: skip
_ARITHMETIC = {"_+_": "add", "_-_": "subtract", "_*_": "multiply", "_/_": "divide", "_%_": "modulo"}


def emit_call(g: Generator, node: CallNode) -> Val:
    special = _SPECIAL.get(node.function)
    if special is not None:
        return special(g, node)
    return function_call(g, node)


# --- logic


def _bool(g: Generator, node: Node) -> Val:
    val = g.compile(node)
    if _type(node).kind == "bool":
        return val
    return Val(f"truth({val.src})", True, val.failed)


def _logical(g: Generator, node: CallNode) -> Val:
    """&& and ||: the right side may absorb an error of the left one."""
    is_and = node.function == "_&&_"
    word, test = ("and", "") if is_and else ("or", "not ")
    mark, indent = len(g.lines), g.indent
    g.indent += 1
    left = _bool(g, node.args[0])
    g.indent = indent
    body, g.lines[mark:] = g.lines[mark:], []
    if left.may_fail:
        return _absorbing(g, node, left, body)
    g.lines += dedent(body)
    mark = len(g.lines)
    g.indent += 1
    right = _bool(g, node.args[1])
    g.indent = indent
    if len(g.lines) == mark:
        return Val(f"({left.src} {word} {right.src})", right.fails, right.failed)
    body, g.lines[mark:] = g.lines[mark:], []
    variable = g.fresh()
    g.line(f"{variable} = {left.src}")
    g.line(f"if {test}{variable}:")
    g.lines += body
    g.line(f"    {variable} = {right.src}")
    return Val(variable, False, right.may_fail)


def _absorbing(g: Generator, node: CallNode, left: Val, body: list[str]) -> Val:
    is_and = node.function == "_&&_"
    test = "" if is_and else "not "
    variable, error = g.fresh(), g.fresh("e")
    g.line(f"{error} = None")
    g.line("try:")
    g.lines += body
    g.line(f"    {variable} = {left.src}")
    g.line("except EvalError as caught:")
    g.line(f"    {error} = caught")
    g.line(f"    {variable} = {is_and}")
    g.line(f"if {test}{variable}:")
    g.indent += 1
    g.line("try:")
    g.indent += 1
    right = _bool(g, node.args[1])
    g.line(f"{variable} = {right.src}")
    g.indent -= 1
    g.line("except EvalError:")
    g.line(f"    if {error} is not None: raise {error} from None")
    g.line("    raise")
    g.line(f"if {error} is not None and {test}{variable}: raise {error}")
    g.indent -= 1
    return Val(variable, False, True)


def _branch(g: Generator, node: Node) -> Val:
    """A branch of a conditional; the reference implementation charges names in it less."""
    val = g.compile(node)
    if g.tracked and _is_attribute(node) and not constants.fold(node)[0]:
        is_test = isinstance(node, Select) and node.test_only
        if not _is_conditional(node) and not is_test:
            g.charge(-1)
    return val


def _is_conditional(node: Node) -> bool:
    return isinstance(node, CallNode) and node.function == "_?_:_"


def _conditional(g: Generator, node: CallNode) -> Val:
    condition = g.name(_bool(g, node.args[0]))
    indent, mark = g.indent, len(g.lines)
    g.indent += 1
    then = _branch(g, node.args[1])
    split = len(g.lines)
    other = _branch(g, node.args[2])
    g.indent = indent
    declared = then.declared if then.declared is other.declared else None
    if declared is None:
        then, other = g.box(then), g.box(other)
    may_fail = condition.failed or then.may_fail or other.may_fail
    if len(g.lines) == mark:
        src = f"({then.src} if {condition.src} else {other.src})"
        return Val(src, then.fails or other.fails, condition.failed, declared)
    then_body, other_body = g.lines[mark:split], g.lines[split:]
    del g.lines[mark:]
    variable = g.fresh()
    g.line(f"if {condition.src}:")
    g.lines += then_body
    g.line(f"    {variable} = {then.src}")
    g.line("else:")
    g.lines += other_body
    g.line(f"    {variable} = {other.src}")
    return Val(variable, False, may_fail, declared)


def _not(g: Generator, node: CallNode) -> Val:
    args = arguments(g, node.args)
    if kinds_of(node) == ("bool",):
        return finish(g, node, args, f"(not {args[0].src})", fails=False)
    return finish(g, node, args, f"logical_not({args[0].src})", fails=True)


# --- comparison


def _equality(g: Generator, node: CallNode) -> Val:
    op = "==" if node.function == "_==_" else "!="
    vals = arguments(g, node.args, boxed=False)
    kinds = kinds_of(node)
    a, b = vals
    exact = (
        a.declared is not None
        and b.declared is not None
        and a.declared.exact
        and b.declared.exact
        and a.declared.kind == b.declared.kind
    )
    if exact or (kinds[0] == kinds[1] and kinds[0] in _DIRECT):
        return finish(g, node, vals, f"({a.src} {op} {b.src})", fails=False)
    boxed = [g.box(v) for v in vals]
    word = "" if op == "==" else "not "
    src = f"({word}equal({boxed[0].src}, {boxed[1].src}))"
    return finish(g, node, vals, src, fails=True)


def _order(g: Generator, node: CallNode) -> Val:
    args = arguments(g, node.args)
    kinds = kinds_of(node)
    if kinds[0] in _DIRECT and kinds[1] in _DIRECT:
        src = f"({args[0].src} {_ORDER[node.function]} {args[1].src})"
        return finish(g, node, args, src, fails=False)
    src = f"{_ORDER_NAMES[node.function]}({args[0].src}, {args[1].src})"
    return finish(g, node, args, src, fails=True)


def _in(g: Generator, node: CallNode) -> Val:
    found, members = constants.fold(node.args[1])
    element = _type(node.args[0]).kind
    if found and overload_of(node) == "in_list" and _is_simple(members):
        val = g.compile(node.args[0])
        if element in ("string", "int", "uint"):
            src = f"({val.src} in {g.constant(frozenset(members))})"
            return Val(src, val.fails, val.failed)
        boxed = g.box(val)
        return Val(f"contains({boxed.src}, {g.constant(members)})", True, boxed.failed)
    vals = arguments(g, node.args, boxed=False)
    container = vals[1]
    plain = container.declared is not None and container.declared.is_plain
    if element in ("string", "int") and (plain or _type(node.args[1]).kind == "map"):
        return finish(g, node, vals, f"({vals[0].src} in {container.src})", fails=False)
    boxed_vals = [g.box(v) for v in vals]
    src = f"contains({boxed_vals[0].src}, {boxed_vals[1].src})"
    return finish(g, node, vals, src, fails=True)


def _is_simple(members: Any) -> bool:
    return all(isinstance(m, str | int | float) or m is None for m in members)


# --- arithmetic


def _arithmetic(g: Generator, node: CallNode) -> Val:
    kinds = kinds_of(node)
    args = arguments(g, node.args)
    a, b = (v.src for v in args)
    op = node.function[1]
    if kinds == ("int", "int") and op in "+-*":
        variable = g.fresh()
        g.line(f"{variable} = {a} {op} {b}")
        g.line(
            f"if {variable} > {INT_MAX} or {variable} < {INT_MIN}: "
            'raise EvalError("integer overflow")'
        )
        val = Val(variable, False, True)
        return g.charge_call(cost_of(node.function, overload_of(node)), args, val)
    if kinds == ("int", "int"):
        function = "divide_int" if op == "/" else "modulo_int"
        return finish(g, node, args, f"{function}({a}, {b})", fails=True)
    if kinds == ("double", "double") and op in "+-*":
        return finish(g, node, args, f"({a} {op} {b})", fails=False)
    if op == "+" and kinds in (("string", "string"), ("bytes", "bytes")):
        return finish(g, node, args, f"({a} + {b})", fails=False)
    src = f"{_ARITHMETIC[node.function]}({a}, {b})"
    return finish(g, node, args, src, fails=True)


def _negate(g: Generator, node: CallNode) -> Val:
    args = arguments(g, node.args)
    if kinds_of(node) == ("double",):
        return finish(g, node, args, f"(-{args[0].src})", fails=False)
    return finish(g, node, args, f"negate({args[0].src})", fails=True)


# --- access


def _index(g: Generator, node: CallNode) -> Val:
    container, key = _operand_and_key(g, node)
    if is_optional(_type(node.args[0])):
        boxed = g.box(container)
        return g.charge_present(Val(f"index({boxed.src}, {key.src})", True, boxed.failed))
    g.charge(1)
    kind, key_kind = _type(node.args[0]).kind, _type(node.args[1]).kind
    if kind == "list" and key_kind == "int":
        return _element(g, node, container, key)
    if kind == "map" and key_kind in ("string", "int"):
        key = g.name(key) if not key.src.startswith(("'", '"')) else key
        return g.entry(container, key.src, f"'no such key: ' + show({key.src})")
    boxed = g.box(container)
    return Val(f"index({boxed.src}, {key.src})", True, boxed.failed)


def _operand_and_key(g: Generator, node: CallNode) -> tuple[Val, Val]:
    """What is indexed, and by what; as a key, a name costs nothing of its own."""
    container, key = g.sequence(node.args)
    if g.tracked:
        if not _is_attribute(node.args[0]):
            g.charge(1)
        if _is_attribute(node.args[1]) and not _is_conditional(node.args[1]):
            g.charge(-1)
    return container, g.box(key)


def _element(g: Generator, node: CallNode, container: Val, key: Val) -> Val:
    container = g.name(container)
    found, position = constants.fold(node.args[1])
    if found:
        if position < 0:
            g.line(f"raise EvalError('index out of bounds: {position}')")
            return Val("None", False, True)
        g.line(
            f"if len({container.src}) <= {position}: "
            f"raise EvalError('index out of bounds: {position}')"
        )
    else:
        key = g.name(key)
        g.line(
            f"if not 0 <= {key.src} < len({container.src}): "
            f"raise EvalError(f'index out of bounds: {{{key.src}}}')"
        )
    variable = g.fresh()
    g.line(f"{variable} = {container.src}[{key.src}]")
    if container.declared is None or container.declared.elem is None:
        return Val(variable, False, True)
    return g.typed(variable, container.declared.elem, nullable=True, failed=True)


def _optional_access(g: Generator, node: CallNode) -> Val:
    if node.function == "_?._":
        container = g.compile(node.args[0])
        if g.tracked and not _is_attribute(node.args[0]):
            g.charge(1)
        assert isinstance(node.args[1], Literal)
        return g.charge_present(_optional_field(g, container, node.args[1].value))
    container, key = _operand_and_key(g, node)
    boxed = g.box(container)
    src = f"opt_index({boxed.src}, {key.src})"
    return g.charge_present(Val(src, True, boxed.failed or key.failed))


def _optional_field(g: Generator, container: Val, name: str) -> Val:
    """A field of JSON is boxed alone, not with all its siblings."""
    declared = container.declared
    if declared is None or declared.kind != "object":
        boxed = g.box(container)
        return Val(f"opt_select({boxed.src}, {name!r})", True, boxed.failed)
    key = declared.field(name)
    assert key is not None
    held = g.name(Val(f"{container.src}.get({declared.properties[key]!r})", container.fails))
    box = g.constant_boxer(declared.fields[key])
    return Val(f"(NONE if {held.src} is None else Optional({box}({held.src})))", True, True)


_SPECIAL: dict[str, Callable[[Generator, CallNode], Val]] = {
    "_&&_": _logical,
    "_||_": _logical,
    "_?_:_": _conditional,
    "!_": _not,
    "_==_": _equality,
    "_!=_": _equality,
    **dict.fromkeys(_ORDER, _order),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "-_": _negate,
    "@in": _in,
    "_[_]": _index,
    "_[?_]": _optional_access,
    "_?._": _optional_access,
    "or": optional_or,
    "orValue": optional_or,
}
