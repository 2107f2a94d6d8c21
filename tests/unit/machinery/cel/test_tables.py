"""Tables of expressions and what becomes of them.

A table is a text file of blocks: the expression after `> `, then its value (or error) and
a line with its type, what it may cost and what it did cost; or the compiler's complaint.
They were written down from, and agree with, what kube-apiserver 1.36's libraries answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_TABLES = sorted((Path(__file__).parent / "tables").glob("*.txt"))


def _blocks(path: Path) -> list[tuple[str, str]]:
    out = []
    for block in path.read_text().split("\n\n"):
        if block.startswith("> "):
            text, _, expected = block[2:].partition("\n")
            out.append((text, expected.rstrip("\n")))
    return out


_CASES = [
    pytest.param(path.stem == "extended", text, expected, id=f"{path.stem}: {text}")
    for path in _TABLES
    for text, expected in _blocks(path)
]


@pytest.mark.parametrize(("extended", "text", "expected"), _CASES)
def test_outcome(
    outcome: Callable[[str, bool], str], extended: bool, text: str, expected: str
) -> None:
    assert outcome(text, extended) == expected


def test_tables_are_read() -> None:
    assert len(_CASES) > 800
