"""Workspaces that are protected from deletion."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import WORKSPACES, inside, is_ready

CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
ANNOTATION = "tenancy.pykcp.io/deletion-protection"
HOW = f"remove the annotation {ANNOTATION} from it first"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server() as process:
        yield process


@pytest.fixture
def org(root: TestClient) -> TestClient:
    name = f"org{next(_numbers)}"
    make(root, name)
    return root.in_cluster(f"root:{name}")


def path_of(client: TestClient) -> str:
    return client.prefix.removeprefix("/clusters/")


def make(
    parent: TestClient, name: str, mark: str = "", labels: dict[str, str] | None = None
) -> str:
    """A ready workspace; returns the name of its logical cluster."""
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {ANNOTATION: mark} if mark else {},
        },
        "spec": {},
    }
    made = parent.post(WORKSPACES, body)
    assert made.status == 201, made
    return str(eventually(is_ready(parent, name))["spec"]["cluster"])


def mark(parent: TestClient, name: str, value: str | None) -> None:
    changed = parent.patch(
        f"{WORKSPACES}/{name}", {"metadata": {"annotations": {ANNOTATION: value}}}, MERGE
    )
    assert changed.status == 200, changed


def is_gone(parent: TestClient, name: str) -> Callable[[], bool]:
    return lambda: parent.get(f"{WORKSPACES}/{name}").status == 404


def test_a_protected_workspace_stays(org: TestClient) -> None:
    make(org, "kept", "true")
    refused = org.delete(f"{WORKSPACES}/kept")
    assert refused.status == 403
    assert refused.json["reason"] == "Forbidden"
    assert refused.json["message"] == (
        f'workspaces.tenancy.kcp.io "kept" is forbidden: it is protected from deletion, {HOW}'
    )
    assert org.delete(f"{WORKSPACES}/kept", dryRun="All").status == 403
    mark(org, "kept", None)
    assert org.delete(f"{WORKSPACES}/kept").status == 200
    eventually(is_gone(org, "kept"))


@pytest.mark.parametrize("value", ["false", "", "True"])
def test_only_true_protects(org: TestClient, value: str) -> None:
    make(org, "free")
    mark(org, "free", value)
    assert org.delete(f"{WORKSPACES}/free").status == 200
    eventually(is_gone(org, "free"))


def test_nor_does_what_it_is_in_go(root: TestClient, org: TestClient) -> None:
    make(org, "a")
    make(inside(org, "a"), "b")
    make(inside(inside(org, "a"), "b"), "c", "true")
    make(inside(org, "a"), "free")
    path = path_of(org)
    for parent, name in ((root, path.rpartition(":")[2]), (org, "a"), (inside(org, "a"), "b")):
        refused = parent.delete(f"{WORKSPACES}/{name}")
        assert refused.status == 403, refused
        assert refused.json["message"] == (
            f'workspaces.tenancy.kcp.io "{name}" is forbidden: '
            f"workspace {path}:a:b:c in it is protected from deletion, {HOW}"
        )
    make(inside(org, "a"), "d", "true")
    more = org.delete(f"{WORKSPACES}/a").json["message"]
    assert f"workspace {path}:a:b:c (and 1 more) in it is protected" in more
    # beside it, and without it, all is as usual
    assert inside(org, "a").delete(f"{WORKSPACES}/free").status == 200
    mark(inside(inside(org, "a"), "b"), "c", None)
    mark(inside(org, "a"), "d", "false")
    assert org.delete(f"{WORKSPACES}/a").status == 200
    eventually(is_gone(org, "a"))


def test_collections_go_as_a_whole_or_not_at_all(org: TestClient) -> None:
    for name in ("a", "b", "z"):
        make(org, name, labels={"batch": "yes"})
    make(org, "other", "true")
    make(inside(org, "z"), "deep", "true")
    refused = org.delete(WORKSPACES, labelSelector="batch=yes")
    assert refused.status == 403, refused
    assert f"workspace {path_of(org)}:z:deep in it is protected" in refused.json["message"]
    names = [one["metadata"]["name"] for one in org.get(WORKSPACES).json["items"]]
    assert names == ["a", "b", "other", "z"]
    assert not any("deletionTimestamp" in w["metadata"] for w in org.get(WORKSPACES).json["items"])
    mark(inside(org, "z"), "deep", None)
    assert org.delete(WORKSPACES, labelSelector="batch=yes").status == 200
    for name in ("a", "b", "z"):
        eventually(is_gone(org, name))
    assert org.delete(WORKSPACES).status == 403


def test_the_logical_cluster_is_no_way_around(shard: ServerProcess, org: TestClient) -> None:
    cluster = make(org, "kept", "true")
    make(org, "around")
    make(inside(org, "around"), "deep", "true")
    for place in (cluster, f"{path_of(org)}:around"):
        refused = shard.client(cluster=place).delete(f"{CLUSTERS}/cluster")
        assert refused.status == 403, refused
        assert "protected from deletion" in refused.json["message"]


def test_a_mark_that_comes_too_late_holds_up_nothing(org: TestClient) -> None:
    make(org, "going")
    going = inside(org, "going")
    make(going, "inner")
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    maps = "/api/v1/namespaces/default/configmaps"
    assert going.post(maps, held).status == 201
    assert inside(going, "inner").post(maps, held).status == 201
    assert org.delete(f"{WORKSPACES}/going").status == 200
    mark(org, "going", "true")
    mark(going, "inner", "true")
    for place in (inside(going, "inner"), going):
        freed = place.patch(f"{maps}/held", {"metadata": {"finalizers": None}}, MERGE)
        assert freed.status == 200, freed
    eventually(is_gone(org, "going"))


def test_it_is_known_again_after_a_crash(shard: ServerProcess, org: TestClient) -> None:
    make(org, "a")
    make(inside(org, "a"), "b", "true")
    shard.kill()
    shard.start()
    org = shard.client(cluster=path_of(org))
    assert org.delete(f"{WORKSPACES}/a").status == 403
    mark(inside(org, "a"), "b", None)
    assert org.delete(f"{WORKSPACES}/a").status == 200
    eventually(is_gone(org, "a"))
