"""Texts of annotations, on objects and in the audit trail."""

from __future__ import annotations

from typing import Any

import orjson


def go_json(value: Any) -> str:
    """JSON as Go writes it: what HTML could mistake for markup is escaped."""
    text = orjson.dumps(value).decode()
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    return text
