"""The page of the fields of kcp's kinds: every path of their schemas, with its type and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykcp.cli.reference_commands import cell

if TYPE_CHECKING:
    from pykcp.machinery.schema.definition import ResourceDefinition
    from pykcp.machinery.schema.model import Schema

_TEXT = """# Fields of kcp's kinds

The fields of every kind in kcp's groups, by group and version. [Kinds](kinds.md) lists where they are served, and
[kinds of the operator](operator.md) has those of `operator.kcp.io`. `[]` stands for the items of a list, `{}` for the values of a map.
`kubectl explain` shows the same in a workspace. All kinds also have `apiVersion`, `kind` and `metadata`.
Conditions have `type`, `status`, `reason`, `message`, `severity` (of a False status: Error, Warning or Info) and
`lastTransitionTime`; label selectors have `matchLabels` and `matchExpressions`, as in Kubernetes.
"""
_LEFT_OUT = ("apiVersion", "kind", "metadata")
_DEEPEST = 8
_NOT_ENTERED = ("conditions", "matchExpressions")
"""Lists whose items are the same everywhere."""


def fields_page() -> str:
    """Every field of every kind, one table for each version."""
    from pykcp.apis.kcp_catalog import kcp_definitions

    lines = [_TEXT]
    groups: dict[str, list[ResourceDefinition]] = {}
    for definition in kcp_definitions():
        groups.setdefault(definition.group, []).append(definition)
    for group, definitions in sorted(groups.items()):
        lines.append(f"## {group}\n")
        for definition in sorted(definitions, key=lambda one: one.kind):
            lines += _kind(definition)
    return "\n".join(lines)


def _kind(definition: ResourceDefinition) -> Iterator[str]:
    for version in definition.all_versions:
        schema = _resolved(version.load_schema())
        several = len(definition.all_versions) > 1
        yield f"### {definition.kind}" + (f" ({version.name})" if several else "") + "\n"
        yield f"`{definition.group}/{version.name}`. {schema.description}\n"
        yield "| field | type | meaning |\n|---|---|---|"
        for name, member in schema.properties.items():
            if name not in _LEFT_OUT:
                yield from _rows(name, member, name in schema.required, ())
        yield ""


def _rows(path: str, schema: Schema, is_required: bool, above: tuple[int, ...]) -> Iterator[str]:
    """A field and those below it; a type that contains itself is shown once."""
    node, suffix = _innermost(schema)
    notes = [_sentence(schema.description or _resolved(schema).description)]
    notes += _notes(schema, node)
    required = "**required** " if is_required else ""
    yield f"| `{path}` | {_type(schema)} | {required}{cell(' '.join(filter(None, notes)))} |"
    is_known = path.rpartition(".")[2] in _NOT_ENTERED
    if is_known or id(node) in above or len(above) >= _DEEPEST:
        return
    for name, member in node.properties.items():
        yield from _rows(
            f"{path}{suffix}.{name}", member, name in node.required, (*above, id(node))
        )


def _resolved(schema: Schema) -> Schema:
    return schema.component or schema


def _innermost(schema: Schema) -> tuple[Schema, str]:
    """What the items of a list, or the values of a map, are made of."""
    node, suffix = _resolved(schema), ""
    while True:
        if node.items is not None:
            node, suffix = _resolved(node.items), suffix + "[]"
        elif node.additional is not None:
            node, suffix = _resolved(node.additional), suffix + "{}"
        else:
            return node, suffix


def _type(schema: Schema) -> str:
    node = _resolved(schema)
    if node.items is not None:
        return f"list of {_type(node.items)}"
    if node.additional is not None:
        return f"map of {_type(node.additional)}"
    if node.int_or_string or node.format == "int-or-string":
        return "number or text"
    if node.format in ("date-time", "micro-time"):
        return "time"
    return {"string": "text", "integer": "number", "boolean": "switch", "": "any"}.get(
        node.type, node.type
    )


def _notes(schema: Schema, node: Schema) -> Iterator[str]:
    """What values are allowed."""
    enum = node.enum or schema.enum
    if enum:
        yield f"One of {', '.join(f'`{one}`' for one in enum)}."
    if schema.has_default and schema.default not in ({}, [], ""):
        yield f"Default: `{json.dumps(schema.default)}`."
    for rule in schema.rules:
        if rule.get("message") and "](" not in rule["message"]:  # a pattern that reads as a link
            yield f"Rule: `{rule['message'].rstrip('.')}`."


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", ":")) else f"{text}."
