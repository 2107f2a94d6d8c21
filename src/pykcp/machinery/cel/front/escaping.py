"""Escaping of property names that are not CEL identifiers.

`x-y` is reached as `x__dash__y`, `namespace` as `__namespace__`.
"""

from __future__ import annotations

import re

_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
    "function", "if", "import", "let", "loop", "package", "namespace", "return", "var",
    "void", "while",
))  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z0-9_]*")
_ALLOWED = re.compile(r"[A-Za-z0-9_./-]*")
_EXPAND = re.compile(r"__|[-./]")
_NAMES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__[^_]+__")
_MEANING = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def is_reserved(name: str) -> bool:
    return name in _RESERVED


def escape(name: str) -> str | None:
    """The identifier for a property, or None when it cannot be had."""
    if not name or name[0] in "0123456789":
        return None
    if name in _RESERVED:
        return f"__{name}__"
    if _PLAIN.fullmatch(name) and "__" not in name:
        return name
    if not _ALLOWED.fullmatch(name):
        return None
    return _EXPAND.sub(lambda m: _NAMES[m.group()], name)


def unescape(identifier: str) -> str | None:
    """The property that an identifier stands for, or None when it stands for none."""
    valid = True

    def meaning(found: re.Match[str]) -> str:
        nonlocal valid
        word = found.group()[2:-2]
        if word in _MEANING:
            return _MEANING[word]
        if word not in _RESERVED or len(found.group()) != len(identifier):
            valid = False
        return word

    name = _ESCAPED.sub(meaning, identifier)
    return name if valid else None
