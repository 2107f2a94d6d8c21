"""Python for function calls, and what all calls have in common."""

from __future__ import annotations

from pykcp.machinery.cel.check.types import is_optional
from pykcp.machinery.cel.cost.runtime_cost import cost_of
from pykcp.machinery.cel.emit.codegen import Generator, Val, _type
from pykcp.machinery.cel.front.ast import CallNode, Node
from pykcp.machinery.cel.library import IMPLEMENTATIONS
from pykcp.machinery.cel.runtime.dispatch import dynamic


def overload_of(node: CallNode) -> str:
    return node.overloads[0] if len(node.overloads) == 1 else ""


def kinds_of(node: CallNode) -> tuple[str, ...]:
    return tuple(_type(a).kind for a in node.args)


def finish(g: Generator, node: CallNode, args: list[Val], src: str, *, fails: bool) -> Val:
    """The call itself, with what it costs."""
    failed = any(a.failed for a in args)
    val = Val(src, fails or any(a.fails for a in args), failed)
    return g.charge_call(cost_of(node.function, overload_of(node)), args, val)


def arguments(g: Generator, nodes: list[Node], *, boxed: bool = True) -> list[Val]:
    vals = g.boxed_sequence(nodes) if boxed else g.sequence(nodes)
    return [g.name(v) for v in vals] if g.tracked else vals


def dedent(lines: list[str]) -> list[str]:
    return [line[4:] for line in lines]


def function_call(g: Generator, node: CallNode) -> Val:
    nodes = [node.target, *node.args] if node.target is not None else node.args
    sized = _sized(g, node, nodes)
    if sized is not None:
        return sized
    args = _crashing_args(g, nodes) if crashes_on_errors(node) else arguments(g, nodes)
    identifier = overload_of(node)
    listed = ", ".join(a.src for a in args)
    if identifier and not any(_is_open(n) for n in nodes):
        simple = _INLINE.get(identifier)
        if simple is not None:
            return finish(g, node, args, simple.format(*(a.src for a in args)), fails=False)
        function = g.constant(IMPLEMENTATIONS[identifier])
        return finish(g, node, args, f"{function}({listed})", fails=True)
    function = g.constant(dynamic(node.function, node.overloads))
    return finish(g, node, args, f"{function}({listed})", fails=True)


CRASH = "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add"


def crashes_on_errors(node: CallNode) -> bool:
    """Whether the reference implementation, counting the cost, trips over an error here."""
    overload = overload_of(node)
    return overload == "list_distinct" or overload.endswith(("_sort", "_sortByAssociatedKeys"))


def _crashing_args(g: Generator, nodes: list[Node]) -> list[Val]:
    mark, indent = len(g.lines), g.indent
    g.indent += 1
    args = [g.name(v) for v in arguments(g, nodes)]
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


def _sized(g: Generator, node: CallNode, nodes: list[Node]) -> Val | None:
    """size() of what has a length in Python too."""
    if node.function != "size" or _type(nodes[0]).kind not in ("string", "bytes", "list", "map"):
        return None
    vals = arguments(g, nodes, boxed=False)
    plain = vals[0].declared is not None or _type(nodes[0]).kind in ("string", "bytes", "list")
    function = "len" if plain else "size"
    return finish(g, node, vals, f"{function}({vals[0].src})", fails=not plain)


def optional_or(g: Generator, node: CallNode) -> Val:
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
