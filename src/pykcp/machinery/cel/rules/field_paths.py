"""`fieldPath` of a rule: a JSON path of names and keys that must lead somewhere."""

from __future__ import annotations

import re

from pykcp.machinery.schema.model import Schema

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'",
    "\\": "\\",
}  # fmt: skip


class FieldPathError(Exception):
    pass


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    return f"{path}[{name}]"


def normalize(json_path: str, schema: Schema) -> str:
    """The path as errors show it; raises FieldPathError when it leads nowhere."""
    path = ""
    tokens = _tokens(json_path)
    at = 0

    def following() -> str:
        nonlocal at
        at += 1
        if at >= len(tokens):
            raise FieldPathError("unexpected end of JSON path")
        return tokens[at]

    while at < len(tokens):
        piece = tokens[at]
        if piece == ".":
            name = following()
        elif piece == "[":
            name = _unquote(following())
            if following() != "]":
                raise FieldPathError(f"expected ] but got {tokens[at]}")
        else:
            raise FieldPathError(f"expected [ or . but got: {piece}")
        path, schema = _step(path, schema, name)
        at += 1
    return path


def _step(path: str, schema: Schema, name: str) -> tuple[str, Schema]:
    if schema.properties:
        found = schema.properties.get(name)
        if found is None:
            raise FieldPathError("does not refer to a valid field")
        return child(path, name), found
    if schema.additional is not None:
        return key(path, name), schema.additional
    raise FieldPathError("does not refer to a valid field")


def _tokens(text: str) -> list[str]:
    """Dots, brackets, quoted strings, and what stands between them."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in ".[]":
            out.append(text[at])
            at += 1
            continue
        if text[at] == "'":
            end = at + 1
            while end < len(text) and not (text[end] == "'" and text[end - 1] != "\\"):
                end += 1
            out.append(text[at : end + 1])
            at = end + 1
            continue
        end = at
        while end < len(text) and text[end] not in ".[]":
            end += 1
        out.append(text[at:end])
        at = end
    return out


def _unquote(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def meaning(found: re.Match[str]) -> str:
        char = found.group()[1]
        if char not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found.group()}")
        return _ESCAPES[char]

    return re.sub(r"\\.", meaning, token[1:-1])
