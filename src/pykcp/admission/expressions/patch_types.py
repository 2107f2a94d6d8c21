"""The names of types in patches must say where their values stand: `Object.spec` under `spec`.

They are checked on the text: a literal inside another, also through lists, maps and
conditions, but not one that comes by way of a variable.
"""

from __future__ import annotations

from pykcp.machinery.cel.check.environment import Environment
from pykcp.machinery.cel.front.ast import EntryNode, Literal, Node, StructNode, children
from pykcp.machinery.cel.front.parser import parse
from pykcp.machinery.cel.front.source import Issues

_JSON_PATCH = "JSONPatch"


def misnamed_types(expression: str, environment: Environment) -> str:
    """What is wrong with the names, one line each; "" if nothing is."""
    root = parse(expression, environment.macros, Issues(expression))
    if root is None:
        return ""
    found: list[str] = []
    _walk(root, "", found)
    return "\n".join(found)


def _walk(node: Node, place: str, found: list[str]) -> None:
    """`place`: the name that a type has here; "" outside of all types."""
    if not isinstance(node, StructNode):
        for child in children(node):
            _walk(child, place, found)
        return
    name = node.name.removeprefix(".")
    if name == _JSON_PATCH:
        for entry in node.entries:
            _walk(entry.value, "", found)
        return
    if place and name != place:
        found.append(
            f'unexpected type name "{name}", expected "{place}", '
            "which matches field name path from root Object type"
        )
    for entry in node.entries:
        _walk(entry.value, f"{place or name}.{_key(entry)}", found)


def _key(entry: EntryNode) -> str:
    assert isinstance(entry.key, Literal)
    return str(entry.key.value)
