"""Simple paths into a schema (`.spec.a`, `.spec['a b']`): selectable fields, rules' fieldPath."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pykcp.types import Object

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"\\'": "'", "\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t",
            "\\a": "\a", "\\b": "\b", "\\f": "\f", "\\v": "\v"}  # fmt: skip


class PathProblem(ValueError):
    """A path that leads nowhere; the text is upstream's."""


class FoundField(NamedTuple):
    steps: tuple[str, ...]
    schema: Object


def field_at(path: str, schema: Object, *, allow_brackets: bool = True) -> FoundField:
    """The schema a path leads to; raises PathProblem."""
    tokens = iter(_TOKEN.findall(path))
    steps: list[str] = []
    for token in tokens:
        if token == "[":  # noqa: S105 — a bracket
            if not allow_brackets:
                raise PathProblem("array notation is not allowed")
            name = _quoted(_next(tokens))
            schema = _step(name, schema)
            closing = _next(tokens)
            if closing != "]":
                raise PathProblem(f"expected ] but got {closing}")
        elif token == ".":  # noqa: S105 — a dot
            name = _next(tokens)
            schema = _step(name, schema)
        else:
            raise PathProblem(f"expected [ or . but got: {token}")
        steps.append(name)
    return FoundField(tuple(steps), schema)


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise PathProblem("unexpected end of JSON path")
    return token


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise PathProblem(f"expected single quoted string but got {token}")
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), token[1:-1])


def _step(name: str, schema: Object) -> Object:
    properties, extra = schema.get("properties"), schema.get("additionalProperties")
    if properties and name in properties:
        found: Object = properties[name]
        return found
    if not properties and isinstance(extra, dict):
        return extra
    raise PathProblem("does not refer to a valid field")
