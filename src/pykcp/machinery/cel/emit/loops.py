"""Python for comprehensions: what all(), exists(), map() and the like fold into."""

from __future__ import annotations

from pykcp.machinery.cel.check import constants
from pykcp.machinery.cel.check.declared import Declared
from pykcp.machinery.cel.cost.runtime_cost import LIST_CREATE
from pykcp.machinery.cel.emit.calls import _bool
from pykcp.machinery.cel.emit.codegen import Generator, Val, _type
from pykcp.machinery.cel.emit.functions import crash_on_error, dedent
from pykcp.machinery.cel.front.ast import CallNode, Comprehension, ListExpr, MapExpr, Node
from pykcp.machinery.cel.front.macros import SORTED_INPUT


def emit_comprehension(g: Generator, node: Comprehension) -> Val:
    if node.is_bind:
        return _bind(g, node)
    assert isinstance(node.step, CallNode)
    if node.step.function in ("_&&_", "_||_"):
        return _quantifier(g, node, node.step)
    if isinstance(node.accu_init, ListExpr):
        return _to_list(g, node)
    if isinstance(node.accu_init, MapExpr):
        return _to_map(g, node)
    return _exists_one(g, node)


def _bind(g: Generator, node: Comprehension) -> Val:
    value = _bound_value(g, node)
    g.bind({node.accu_var: (value.src, value.declared)})
    result = g.name(g.compile(node.result))
    g.scopes.pop()
    return Val(result.src, False, value.failed or result.failed, result.declared)


def _bound_value(g: Generator, node: Comprehension) -> Val:
    if node.accu_var != SORTED_INPUT:
        return g.name(g.compile(node.accu_init))
    mark, indent = len(g.lines), g.indent
    g.indent += 1
    value = g.name(g.compile(node.accu_init))
    g.indent = indent
    return crash_on_error(g, mark, [value])[0]


def _open(g: Generator, node: Comprehension) -> None:
    """Writes the head of the loop and binds its variables."""
    over = g.compile(node.iter_range)
    kind = _type(node.iter_range).kind
    first = g.fresh("x")
    scope: dict[str, tuple[str, Declared | None]] = {}
    if node.iter_var2:
        _open_pairs(g, node, over, kind, first)
        return
    if (
        kind == "list"
        or (kind == "map" and over.declared is not None)
        or (kind == "map" and _type(node.iter_range).params[0].kind in ("string", "int", "uint"))
    ):
        g.line(f"for {first} in {over.src}:")
    else:
        g.line(f"for {first} in iterate({g.box(over).src}):")
    g.indent += 1
    declared = over.declared.elem if over.declared is not None and kind == "list" else None
    scope[node.iter_var] = _element(g, first, declared)
    g.bind(scope)


def _open_pairs(g: Generator, node: Comprehension, over: Val, kind: str, first: str) -> None:
    second = g.fresh("x")
    declared = over.declared.elem if over.declared is not None else None
    if kind == "list":
        g.line(f"for {first}, {second} in enumerate({over.src}):")
    elif kind == "map" and over.declared is not None:
        g.line(f"for {first}, {second} in {over.src}.items():")
    else:
        g.line(f"for {first}, {second} in iterate_pairs({g.box(over).src}):")
        declared = None
    g.indent += 1
    g.bind({node.iter_var: (first, None), node.iter_var2: _element(g, second, declared)})


def _element(g: Generator, variable: str, declared: Declared | None) -> tuple[str, Declared | None]:
    if declared is None:
        return variable, None
    val = g.typed(variable, declared, nullable=True, failed=True)
    return val.src, val.declared


def _close(g: Generator) -> None:
    g.scopes.pop()
    g.indent -= 1


def _check_limit(g: Generator, cost: int) -> None:
    """Every turn of a loop is charged and may be the last."""
    if g.tracked:
        g.line(f"cost[0] += {cost}")
        g.line("if cost[0] > limit: raise CostExceeded()")


def _quantifier(g: Generator, node: Comprehension, step: CallNode) -> Val:
    """all and exists: one answer ends the loop, an error only counts if none does."""
    is_all = step.function == "_&&_"
    variable, error = g.fresh("r"), g.fresh("e")
    indent, done = g.indent, g.fresh("d")
    g.line(f"{variable} = {is_all}")
    g.line(f"{error} = None")
    g.line(f"{done} = False")
    _open(g, node)
    if g.tracked:
        # the element after the one that decided costs another look at the condition
        g.line(f"if {done}:")
        g.line(f"    cost[0] += {2 if is_all else 3}")
        g.line("    break")
    _check_limit(g, 3 if is_all else 4)
    mark = len(g.lines)
    g.indent += 1
    value = _bool(g, step.args[1])
    g.indent -= 1
    body, g.lines[mark:] = g.lines[mark:], []
    if value.may_fail:
        g.line("try:")
        g.lines += body
        g.line(f"    p = {value.src}")
        g.line("except EvalError as caught:")
        g.line(f"    if {error} is None: {error} = caught")
        g.line("    continue")
        g.line(f"if {'not ' if is_all else ''}p:")
    else:
        g.lines += dedent(body)
        g.line(f"if {'not ' if is_all else ''}({value.src}):")
    g.line(f"    {variable} = {not is_all}")
    g.line(f"    {done} = True")
    if not g.tracked:
        g.line("    break")
    _close(g)
    g.indent = indent
    g.line(f"if {error} is not None and not {done}: raise {error}")
    g.charge(1)
    return Val(variable, False, True)


def _step_parts(node: Comprehension) -> tuple[Node | None, CallNode]:
    """The condition and what is added: `condition ? accu + [x] : accu`."""
    step = node.step
    assert isinstance(step, CallNode)
    if step.function == "_?_:_":
        inner = step.args[1]
        assert isinstance(inner, CallNode)
        return step.args[0], inner
    return None, step


def _guard(g: Generator, condition: Node | None) -> None:
    if condition is None:
        return
    value = _bool(g, condition)
    g.line(f"if not ({value.src}): continue")


def _to_list(g: Generator, node: Comprehension) -> Val:
    variable, indent = g.fresh("r"), g.indent
    g.line(f"{variable} = []")
    _open(g, node)
    condition, step = _step_parts(node)
    _check_limit(g, 0)
    _guard(g, condition)
    added = step.args[1]
    assert isinstance(added, ListExpr)
    value = g.box(g.compile(added.elements[0]))
    if g.tracked:
        g.charge(2 + (0 if constants.fold(added)[0] else LIST_CREATE))
    g.line(f"{variable}.append({value.src})")
    _close(g)
    g.indent = indent
    g.charge(1)
    return Val(variable, False, True)


def _to_map(g: Generator, node: Comprehension) -> Val:
    variable, indent = g.fresh("r"), g.indent
    g.line(f"{variable} = {{}}")
    _open(g, node)
    condition, step = _step_parts(node)
    _check_limit(g, 0)
    _guard(g, condition)
    vals = g.boxed_sequence(step.args[1:])
    g.charge(2)
    function = "map_insert" if len(vals) == 2 else "map_insert_all"
    g.line(f"{function}({variable}, {', '.join(v.src for v in vals)})")
    _close(g)
    g.indent = indent
    g.charge(1)
    return Val(variable, False, True)


def _exists_one(g: Generator, node: Comprehension) -> Val:
    variable, indent = g.fresh("r"), g.indent
    g.line(f"{variable} = 0")
    _open(g, node)
    _check_limit(g, 0)
    assert isinstance(node.step, CallNode)
    value = _bool(g, node.step.args[0])
    g.line(f"if {value.src}:")
    g.line(f"    {variable} += 1")
    if g.tracked:
        g.line("    cost[0] += 2")
    _close(g)
    g.indent = indent
    g.charge(2)
    return Val(f"({variable} == 1)", False, True)
