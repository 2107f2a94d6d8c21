"""Reads the kinds files that ship with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pykcp.machinery.schema.library import Library

_HERE = Path(__file__).parent


def read_kinds(path: str) -> str:
    """The text of `kube/core_v1` and its like."""
    return (_HERE / f"{path}.kinds").read_text(encoding="utf-8")


@cache
def library() -> Library:
    """The one library of built-in types; it reads each file once, when first needed."""
    return Library(read_kinds)
