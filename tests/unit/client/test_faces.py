"""The client with and without `await` have the same methods, and the guide names each of them."""

from __future__ import annotations

import inspect
import pathlib
import re
from typing import Any

import pytest

from pykcp.client import Kcp, ObjectInformer, Objects, Provider, Reconciliation, Workspace, sync

GUIDE = pathlib.Path(__file__).parents[3] / "docs/guides/python.md"
PAIRS = [
    (Kcp, sync.SyncKcp),
    (Workspace, sync.SyncWorkspace),
    (Objects, sync.SyncObjects),
    (ObjectInformer, sync.SyncInformer),
    (Provider, sync.SyncProvider),
    (Reconciliation, sync.SyncReconciliation),
]
WITHOUT_AWAIT = {"__aiter__": "__iter__", "__aenter__": "__enter__", "__aexit__": "__exit__"}
ONLY_SYNC = {Provider: {"stop"}, Kcp: {"endpoint"}, Workspace: {"path"}}
"""A task is cancelled instead; attributes of objects are no members of their class."""


def members(face: type) -> dict[str, Any]:
    """Public methods and properties, and those that stand for syntax."""
    kept = {*WITHOUT_AWAIT, *WITHOUT_AWAIT.values(), "__len__", "__truediv__", "__eq__", "__hash__"}
    return {
        WITHOUT_AWAIT.get(name, name): member
        for name, member in vars(face).items()
        if (not name.startswith("_") or name in kept) and member is not None
    }


def parameters(member: Any) -> list[tuple[str, Any, Any]] | None:
    if not inspect.isfunction(member):
        return None
    found = inspect.signature(member).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


@pytest.mark.parametrize(("face", "other"), PAIRS, ids=[face.__name__ for face, _ in PAIRS])
def test_the_same_methods(face: type, other: type) -> None:
    made_by_dataclass = {"__eq__", "__hash__"} if face is Reconciliation else set()
    wanted, found = members(face), members(other)
    assert set(wanted) - made_by_dataclass == set(found) - ONLY_SYNC.get(face, set())
    for name, member in found.items():
        if name in wanted:
            assert parameters(member) == parameters(wanted[name]), name


@pytest.mark.parametrize("face", [face for face, _ in PAIRS], ids=lambda face: face.__name__)
def test_the_guide_names_them(face: type) -> None:
    reference = GUIDE.read_text().partition("## Reference")[2]
    section = reference.partition(f"### {face.__name__}\n")[2].partition("\n### ")[0]
    assert section
    for name in members(face):
        if not name.startswith("__"):
            assert re.search(rf"`{name}\b", section), name
