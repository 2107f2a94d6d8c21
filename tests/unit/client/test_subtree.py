"""Which logical clusters are in a subtree, in whatever order its workspaces are heard of."""

from __future__ import annotations

import itertools

import pytest

from pykcp.client import Kcp
from pykcp.client.subtree import SubtreeInformer, SubtreeMembers
from pykcp.clients.kubeconfig import KubeconfigServer

TREE = [("team", "org"), ("dev", "team"), ("prod", "team"), ("test", "dev")]


@pytest.mark.parametrize("order", [*itertools.permutations(TREE)])
def test_any_order(order: list[tuple[str, str]]) -> None:
    members = SubtreeMembers("org")
    joined: list[str] = []
    members.put("other", "root")
    for cluster, parent in order:
        joined += members.put(cluster, parent)
    assert sorted(joined) == ["dev", "prod", "team", "test"]
    assert members.inside == {"org", "team", "dev", "prod", "test"}
    left: list[str] = []
    for cluster, _ in order:
        left += members.drop(cluster)
    assert sorted(left) == ["dev", "prod", "team", "test"]
    assert members.inside == {"org"}


def test_twice_is_once() -> None:
    members = SubtreeMembers("org")
    assert members.put("team", "org") == {"team"}
    assert members.put("team", "org") == set()
    assert members.drop("team") == {"team"}
    assert members.drop("team") == set()
    assert members.put("team", "org") == {"team"}


def test_a_loop_ends() -> None:
    """No server has one; a wrong answer must not hold the client."""
    members = SubtreeMembers("org")
    members.put("a", "b")
    members.put("b", "a")
    assert members.inside == {"org"}
    assert members.put("org", "org") == set()


@pytest.mark.parametrize("path", ["", "/services/apiexport/x/y/clusters/z"])
def test_where_there_is_none(path: str) -> None:
    kcp = Kcp(KubeconfigServer(f"http://localhost{path}"))
    with pytest.raises(ValueError, match="no subtree"):
        SubtreeInformer(kcp.current, "configmaps")
