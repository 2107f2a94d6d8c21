"""What is said upwards about a tree that does not go."""

from __future__ import annotations

from pykcp.controllers.core.cluster_blockers import Blockers
from pykcp.types import Object


def cluster(name: str, parent: str = "") -> Object:
    owner = {"owner": {"cluster": parent}} if parent else {}
    annotations = {"kcp.io/cluster": name, "kcp.io/path": f"root:{name}"}
    return {"metadata": {"name": "cluster", "annotations": annotations}, "spec": owner}


def test_each_level_hears_of_what_is_below() -> None:
    blockers = Blockers()
    assert blockers.note(cluster("leaf", "middle"), is_here=True) == "middle"
    assert blockers.note(cluster("leaf", "middle"), is_here=True) == ""
    assert blockers.note(cluster("middle", "top"), is_here=False) == "top"
    assert blockers.below("top").text() == "; blocked in root:leaf"
    assert blockers.forget("leaf") == "middle"
    assert blockers.note(cluster("middle", "top"), is_here=False) == "top"
    assert blockers.below("top").text() == ""


def test_nothing_is_kept_when_all_are_gone() -> None:
    """Homes have nobody above them."""
    blockers = Blockers()
    for name, parent in (("home", ""), ("child", "home")):
        blockers.note(cluster(name, parent), is_here=True)
    for name in ("child", "home"):
        blockers.forget(name)
    assert not blockers._in
    assert not blockers._parents
