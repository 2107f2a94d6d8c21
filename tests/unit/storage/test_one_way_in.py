"""Nothing but the registry writes the store: everything that is stored has passed its verbs.

An import contract keeps others from making operations; here, none of them hands one on either.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import pykcp

SOURCES = pathlib.Path(pykcp.__file__).parent
WRITERS = ("registry", "storage")


def _calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls of `<…>store.write(…)`, by line and by what they are called on."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        target = node.func.value
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if node.func.attr == "write" and name.strip("_").endswith("store"):
            yield node.lineno, name


def _packages() -> list[str]:
    return sorted(p.parent.name for p in SOURCES.glob("*/__init__.py"))


@pytest.mark.parametrize("package", [p for p in _packages() if p not in WRITERS])
def test_no_other_package_writes_the_store(package: str) -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in sorted((SOURCES / package).rglob("*.py"))
        for line, _ in _calls(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("await store.write([put])", ["store"]),
        ("await self._store.write(operations)", ["_store"]),
        ("await resource.services.store.write((put,))", ["store"]),
        ("sink.write(data)", []),
        ("store.get(key)", []),
    ],
)
def test_writes_are_recognized(source: str, expected: list[str]) -> None:
    assert [name for _, name in _calls(ast.parse(source))] == expected


def test_the_registry_is_found_to_write() -> None:
    paths = (SOURCES / "registry").rglob("*.py")
    assert sum(len(list(_calls(ast.parse(path.read_text())))) for path in paths) >= 5
