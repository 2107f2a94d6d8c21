"""Checks on well-typed expressions: invalid literals, such as malformed patterns and durations."""

from __future__ import annotations

from pykcp.machinery import regex
from pykcp.machinery.cel.check.types import Type, unwrap_optional
from pykcp.machinery.cel.front.ast import CallNode, ListExpr, Literal, MapExpr, Node, children
from pykcp.machinery.cel.front.source import Issues
from pykcp.machinery.cel.library.templates import NOT, TemplateError, parse_template
from pykcp.machinery.cel.runtime.dispatch import call_dynamic
from pykcp.machinery.cel.runtime.values import EvalError

_ALLOWED = {
    "s": frozenset(
        [
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "timestamp",
            "bytes",
            "duration",
            "type",
            "null",
        ]
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}
_RUNTIME_NAMES = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration",
                  "null": "null_type"}  # fmt: skip


def validate(root: Node, issues: Issues) -> None:
    calls: list[CallNode] = []
    aggregates: list[ListExpr | MapExpr] = []
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, formatted = stack.pop()
        if isinstance(node, CallNode):
            calls.append(node)
            formatted = formatted or node.function == "format"
        elif isinstance(node, ListExpr | MapExpr) and not formatted:
            aggregates.append(node)
        stack += [(child, formatted) for child in children(node)]
    for call in calls:
        _check_call(call, issues)
    for aggregate in aggregates:
        _check_homogeneous(aggregate, issues)


def _check_call(call: CallNode, issues: Issues) -> None:
    if call.function == "format" and call.target is not None:
        _check_format(call, issues)
        return
    if not call.args or not isinstance(call.args[0], Literal):
        return
    literal = call.args[0]
    try:
        if call.function in ("duration", "timestamp"):
            call_dynamic(call.function, call.overloads, [literal.value])
        elif call.function == "matches" and isinstance(literal.value, str):
            regex.compiled(literal.value)
    except (EvalError, regex.RegexError):
        issues.report(literal.offset, f"invalid {call.function} argument")


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


def _check_homogeneous(node: ListExpr | MapExpr, issues: Issues) -> None:
    if isinstance(node, ListExpr):
        first: Type | None = None
        for index, element in enumerate(node.elements):
            found = _type(element)
            if index in node.optional:
                found = unwrap_optional(found)[0]
            first = first or found
            if found != first:
                _mismatch(element, first, found, issues)
                break
        return
    keys: Type | None = None
    values: Type | None = None
    for entry in node.entries:
        key, value = _type(entry.key), _type(entry.value)
        if entry.optional:
            value = unwrap_optional(value)[0]
        keys, values = keys or key, values or value
        if key != keys:
            _mismatch(entry.key, keys, key, issues)
        if value != values:
            _mismatch(entry.value, values, value, issues)


def _mismatch(node: Node, expected: Type, actual: Type, issues: Issues) -> None:
    issues.report(node.offset, f"expected type '{expected}' but found '{actual}'")


def _check_format(call: CallNode, issues: Issues) -> None:
    """A literal template with its arguments in a literal list."""
    template, arguments = call.target, call.args[0]
    if not isinstance(template, Literal) or not isinstance(arguments, ListExpr):
        return
    if not isinstance(template.value, str):
        return
    try:
        pieces = parse_template(template.value, len(arguments.elements))
    except TemplateError as error:
        issues.report(call.offset, str(error))
        return
    clauses = [p for p in pieces if isinstance(p, tuple)]
    for (verb, _), argument in zip(clauses, arguments.elements, strict=False):
        bad = _unfit(argument, verb)
        if bad is not None:
            name = _type(bad).name
            shown = NOT[verb].format(_RUNTIME_NAMES.get(name, name))
            issues.report(bad.offset, f"error during formatting: {shown}")
            return
    if len(arguments.elements) > len(clauses):
        issues.report(
            call.offset,
            "too many arguments supplied to string.format "
            f"(expected {len(clauses)}, got {len(arguments.elements)})",
        )


def _unfit(node: Node, verb: str) -> Node | None:
    """The part of an argument that a clause cannot show."""
    kind = _type(node).kind
    if kind != "dyn" and kind not in _ALLOWED[verb]:
        return node
    if verb == "s" and isinstance(node, ListExpr | MapExpr):
        for child in children(node):
            bad = _unfit(child, verb)
            if bad is not None:
                return bad
    return None
