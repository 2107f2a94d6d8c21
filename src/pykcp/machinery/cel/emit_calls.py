"""Python for operators and function calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel import constants, regex
from pykcp.machinery.cel.ast import Call, Literal, Node, Select
from pykcp.machinery.cel.codegen import Generator, Val, _is_attribute, _type
from pykcp.machinery.cel.constants import ProgramError
from pykcp.machinery.cel.dispatch import dynamic
from pykcp.machinery.cel.library import IMPLEMENTATIONS
from pykcp.machinery.cel.runtime_cost import cost_of
from pykcp.machinery.cel.types import is_optional
from pykcp.machinery.cel.values import INT_MAX, INT_MIN

_DIRECT = frozenset({"string", "int", "uint", "bool", "bytes", "timestamp", "duration"})
"""Types whose values Python compares as CEL does."""
_ORDER = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_ORDER_NAMES = {
    "_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals",
}  # fmt: skip
_ARITHMETIC = {"_+_": "add", "_-_": "subtract", "_*_": "multiply", "_/_": "divide", "_%_": "modulo"}


def emit_call(g: Generator, node: Call) -> Val:
    special = _SPECIAL.get(node.function)
    if special is not None:
        return special(g, node)
    return function_call(g, node)


def _overload(node: Call) -> str:
    return node.overloads[0] if len(node.overloads) == 1 else ""


def _kinds(node: Call) -> tuple[str, ...]:
    return tuple(_type(a).kind for a in node.args)


def _finish(g: Generator, node: Call, args: list[Val], src: str, *, fails: bool) -> Val:
    """The call itself, with what it costs."""
    failed = any(a.failed for a in args)
    val = Val(src, fails or any(a.fails for a in args), failed)
    return g.charge_call(cost_of(node.function, _overload(node)), args, val)


def _args(g: Generator, nodes: list[Node], *, boxed: bool = True) -> list[Val]:
    vals = g.boxed_sequence(nodes) if boxed else g.sequence(nodes)
    return [g.name(v) for v in vals] if g.tracked else vals


# --- logic


def _bool(g: Generator, node: Node) -> Val:
    val = g.compile(node)
    if _type(node).kind == "bool":
        return val
    return Val(f"truth({val.src})", True, val.failed)


def _logical(g: Generator, node: Call) -> Val:
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


def dedent(lines: list[str]) -> list[str]:
    return [line[4:] for line in lines]


def _absorbing(g: Generator, node: Call, left: Val, body: list[str]) -> Val:
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
    return isinstance(node, Call) and node.function == "_?_:_"


def _conditional(g: Generator, node: Call) -> Val:
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


def _not(g: Generator, node: Call) -> Val:
    args = _args(g, node.args)
    if _kinds(node) == ("bool",):
        return _finish(g, node, args, f"(not {args[0].src})", fails=False)
    return _finish(g, node, args, f"logical_not({args[0].src})", fails=True)


# --- comparison


def _equality(g: Generator, node: Call) -> Val:
    op = "==" if node.function == "_==_" else "!="
    vals = _args(g, node.args, boxed=False)
    kinds = _kinds(node)
    a, b = vals
    exact = (
        a.declared is not None
        and b.declared is not None
        and a.declared.exact
        and b.declared.exact
        and a.declared.kind == b.declared.kind
    )
    if exact or (kinds[0] == kinds[1] and kinds[0] in _DIRECT):
        return _finish(g, node, vals, f"({a.src} {op} {b.src})", fails=False)
    boxed = [g.box(v) for v in vals]
    word = "" if op == "==" else "not "
    src = f"({word}equal({boxed[0].src}, {boxed[1].src}))"
    return _finish(g, node, vals, src, fails=True)


def _order(g: Generator, node: Call) -> Val:
    args = _args(g, node.args)
    kinds = _kinds(node)
    if kinds[0] in _DIRECT and kinds[1] in _DIRECT:
        src = f"({args[0].src} {_ORDER[node.function]} {args[1].src})"
        return _finish(g, node, args, src, fails=False)
    src = f"{_ORDER_NAMES[node.function]}({args[0].src}, {args[1].src})"
    return _finish(g, node, args, src, fails=True)


def _in(g: Generator, node: Call) -> Val:
    found, members = constants.fold(node.args[1])
    element = _type(node.args[0]).kind
    if found and _overload(node) == "in_list" and _is_simple(members):
        val = g.compile(node.args[0])
        if element in ("string", "int", "uint"):
            src = f"({val.src} in {g.constant(frozenset(members))})"
            return Val(src, val.fails, val.failed)
        boxed = g.box(val)
        return Val(f"contains({boxed.src}, {g.constant(members)})", True, boxed.failed)
    vals = _args(g, node.args, boxed=False)
    container = vals[1]
    plain = container.declared is not None and container.declared.is_plain
    if element in ("string", "int") and (plain or _type(node.args[1]).kind == "map"):
        return _finish(g, node, vals, f"({vals[0].src} in {container.src})", fails=False)
    boxed_vals = [g.box(v) for v in vals]
    src = f"contains({boxed_vals[0].src}, {boxed_vals[1].src})"
    return _finish(g, node, vals, src, fails=True)


def _is_simple(members: Any) -> bool:
    return all(isinstance(m, str | int | float) or m is None for m in members)


# --- arithmetic


def _arithmetic(g: Generator, node: Call) -> Val:
    kinds = _kinds(node)
    args = _args(g, node.args)
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
        return g.charge_call(cost_of(node.function, _overload(node)), args, val)
    if kinds == ("int", "int"):
        function = "divide_int" if op == "/" else "modulo_int"
        return _finish(g, node, args, f"{function}({a}, {b})", fails=True)
    if kinds == ("double", "double") and op in "+-*":
        return _finish(g, node, args, f"({a} {op} {b})", fails=False)
    if op == "+" and kinds in (("string", "string"), ("bytes", "bytes")):
        return _finish(g, node, args, f"({a} + {b})", fails=False)
    src = f"{_ARITHMETIC[node.function]}({a}, {b})"
    return _finish(g, node, args, src, fails=True)


def _negate(g: Generator, node: Call) -> Val:
    args = _args(g, node.args)
    if _kinds(node) == ("double",):
        return _finish(g, node, args, f"(-{args[0].src})", fails=False)
    return _finish(g, node, args, f"negate({args[0].src})", fails=True)


# --- access


def _index(g: Generator, node: Call) -> Val:
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


def _operand_and_key(g: Generator, node: Call) -> tuple[Val, Val]:
    """What is indexed, and by what; as a key, a name costs nothing of its own."""
    container, key = g.sequence(node.args)
    if g.tracked:
        if not _is_attribute(node.args[0]):
            g.charge(1)
        if _is_attribute(node.args[1]) and not _is_conditional(node.args[1]):
            g.charge(-1)
    return container, g.box(key)


def _element(g: Generator, node: Call, container: Val, key: Val) -> Val:
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


def _optional_access(g: Generator, node: Call) -> Val:
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


# --- functions


def function_call(g: Generator, node: Call) -> Val:
    nodes = [node.target, *node.args] if node.target is not None else node.args
    sized = _sized(g, node, nodes)
    if sized is not None:
        return sized
    args = _crashing_args(g, nodes) if crashes_on_errors(node) else _args(g, nodes)
    matcher = _matcher(g, node, args)
    if matcher is not None:
        return _finish(g, node, args, matcher, fails=True)
    identifier = _overload(node)
    listed = ", ".join(a.src for a in args)
    if identifier and not any(_is_open(n) for n in nodes):
        simple = _INLINE.get(identifier)
        if simple is not None:
            return _finish(g, node, args, simple.format(*(a.src for a in args)), fails=False)
        function = g.constant(IMPLEMENTATIONS[identifier])
        return _finish(g, node, args, f"{function}({listed})", fails=True)
    function = g.constant(dynamic(node.function, node.overloads))
    return _finish(g, node, args, f"{function}({listed})", fails=True)


CRASH = "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add"


def crashes_on_errors(node: Call) -> bool:
    """Whether the reference implementation, counting the cost, trips over an error here."""
    overload = _overload(node)
    return overload == "list_distinct" or overload.endswith(("_sort", "_sortByAssociatedKeys"))


def _crashing_args(g: Generator, nodes: list[Node]) -> list[Val]:
    mark, indent = len(g.lines), g.indent
    g.indent += 1
    args = [g.name(v) for v in _args(g, nodes)]
    g.indent = indent
    return crash_on_error(g, mark, args)


def crash_on_error(g: Generator, mark: int, vals: list[Val]) -> list[Val]:
    """Turns errors of what was written since `mark`, one level in, into a crash."""
    body, g.lines[mark:] = g.lines[mark:], []
    if not body or not any(v.may_fail for v in vals):
        g.lines += dedent(body)
        return vals
    g.line("try:")
    g.lines += body
    g.line("except EvalError:")
    g.line(f"    raise Panic({CRASH!r}) from None")
    return vals


_INLINE = {
    "contains_string": "({1} in {0})",
    "starts_with_string": "{0}.startswith({1})",
    "ends_with_string": "{0}.endswith({1})",
    "int64_to_string": "str({0})",
    "to_dyn": "{0}",
}


def _is_open(node: Node) -> bool:
    """Whether a value might turn out not to be what the function takes."""
    kind = _type(node)
    return kind.kind == "dyn" or any(p.kind == "dyn" for p in kind.params)


def _sized(g: Generator, node: Call, nodes: list[Node]) -> Val | None:
    """size() of what has a length in Python too."""
    if node.function != "size" or _type(nodes[0]).kind not in ("string", "bytes", "list", "map"):
        return None
    vals = _args(g, nodes, boxed=False)
    plain = vals[0].declared is not None or _type(nodes[0]).kind in ("string", "bytes", "list")
    function = "len" if plain else "size"
    return _finish(g, node, vals, f"{function}({vals[0].src})", fails=not plain)


def _matcher(g: Generator, node: Call, args: list[Val]) -> str | None:
    """A pattern that is constant is compiled once."""
    if node.function not in ("matches", "find", "findAll") or len(args) > 3:
        return None
    nodes = [node.target, *node.args] if node.target is not None else node.args
    found, pattern = constants.fold(nodes[1])
    if not found or not isinstance(pattern, str) or _type(nodes[0]).kind != "string":
        return None
    try:
        compiled = regex.compiled(pattern)
    except regex.RegexError as error:
        raise ProgramError(str(error)) from error
    if node.function == "matches":
        return f"{g.constant(compiled.search)}({args[0].src})"
    if node.function == "find":
        return f"{g.constant(_finder(compiled))}({args[0].src})"
    limit = args[2].src if len(args) == 3 else "-1"
    return f"{g.constant(compiled.find_all)}({args[0].src}, {limit})"


def _finder(compiled: regex.Regex) -> Callable[[str], str]:
    def find(text: str) -> str:
        span = compiled.find(text)
        return "" if span is None else text[span[0] : span[1]]

    return find


def _or(g: Generator, node: Call) -> Val:
    """The right side is only looked at when the left one is empty."""
    assert node.target is not None
    if not is_optional(_type(node.target)) and _type(node.target).kind != "dyn":
        return function_call(g, node)
    left = g.name(g.box(g.compile(node.target)))
    variable, indent = g.fresh(), g.indent
    value = ".value" if node.function == "orValue" else ""
    g.line(f"if type({left.src}) is not Optional: {variable} = {left.src}")
    g.line(f"elif {left.src}.present: {variable} = {left.src}{value}")
    g.line("else:")
    g.indent += 1
    right = g.box(g.compile(node.args[0]))
    g.line(f"{variable} = {right.src}")
    g.indent = indent
    return Val(variable, False, True)


_SPECIAL: dict[str, Callable[[Generator, Call], Val]] = {
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
    "or": _or,
    "orValue": _or,
}
