"""Deleted workspaces whose logical clusters were on another shard than their parents."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.moving.migrations import (
    GATE,
    bind_migrations,
    cluster_of,
    make_on,
    migrate,
    wait_for_phase,
)
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import WORKSPACES, is_ready, post_workspace
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
SHARD = "core.kcp.io/shard"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory: pathlib.Path = tmp_path_factory.mktemp("undelete")
    with fleet(directory, shard_flags=(GATE, "--workspace-undelete-window=1h")) as made:
        bind_migrations(made)
        yield made


def child_on(two: Fleet, parent: TestClient, name: str, shard: str) -> TestClient:
    """A workspace on a shard, with something in it."""
    where = {"selector": {"matchLabels": {"name": shard}}}
    post_workspace(parent, name, location=where, type={"path": "root", "name": "universal"})
    found = eventually(is_ready(parent, name))
    assert found["metadata"]["annotations"][SHARD] == shard
    inside = two.client(cluster=found["spec"]["cluster"])
    assert inside.post(MAPS, {"metadata": {"name": "kept"}, "data": {"in": name}}).status == 201
    return inside


def phase(parent: TestClient, name: str) -> str:
    found = parent.get(f"{WORKSPACES}/{name}")
    return str(found.json["status"].get("phase")) if found.status == 200 else ""


def delete(parent: TestClient, name: str) -> None:
    assert parent.delete(f"{WORKSPACES}/{name}").status == 200
    eventually(lambda: parent.get(f"{WORKSPACES}/{name}").status == 404)


def kept(two: Fleet, parent: str, user: str = "") -> list[Object]:
    found = two.client(user=user).get(f"/services/trash/clusters/{parent}/workspaces")
    assert found.status == 200, found
    items: list[Object] = found.json["items"]
    return items


def undelete(two: Fleet, parent: str, name: str, user: str = "", **query: str) -> Reply:
    path = f"/services/trash/clusters/{parent}/workspaces/{name}/undelete"
    return two.client(user=user).post(path, None, **query)


def test_a_workspace_of_another_shard_comes_back(two: Fleet) -> None:
    org = make_on(two, "near", "root")
    inside = child_on(two, org, "far", "shard-1")
    uid = org.get(f"{WORKSPACES}/far").json["metadata"]["uid"]
    version = inside.get(f"{MAPS}/kept").json["metadata"]["uid"]
    delete(org, "far")
    (item,) = kept(two, "root:near")
    assert (item["name"], item["path"], item["children"]) == ("far", "root:near:far", 0)

    restored = undelete(two, "root:near", "far")
    assert restored.status == 200, restored
    assert [one["path"] for one in restored.json["items"]] == ["root:near:far"]
    found = org.get(f"{WORKSPACES}/far").json
    assert found["metadata"]["uid"] == uid
    assert found["status"]["phase"] == "Ready"
    again = two.client(cluster="root:near:far").get(f"{MAPS}/kept")
    assert (again.status, again.json["metadata"]["uid"]) == (200, version)
    assert kept(two, "root:near") == []
    assert undelete(two, "root:near", "far").status == 404
    delete(org, "far")  # it can be deleted and restored as often as wanted
    assert undelete(two, "root:near", "far").status == 200
    assert two.client(cluster="root:near:far").get(f"{MAPS}/kept").status == 200


def test_a_tree_over_both_shards_comes_back(two: Fleet) -> None:
    org = make_on(two, "tree", "root")
    far = child_on(two, org, "a", "shard-1")
    child_on(two, far, "b", "root")
    child_on(two, far, "c", "shard-1")
    delete(org, "a")
    (item,) = kept(two, "root:tree")
    assert item["children"] == 2
    restored = undelete(two, "root:tree", "a", recursive="true")
    assert restored.status == 200, restored
    assert {one["path"] for one in restored.json["items"]} == {
        "root:tree:a", "root:tree:a:b", "root:tree:a:c",
    }  # fmt: skip
    for path in ("root:tree:a", "root:tree:a:b", "root:tree:a:c"):
        assert two.client(cluster=path).get(f"{MAPS}/kept").status == 200


def test_a_taken_name_stays(two: Fleet) -> None:
    org = make_on(two, "taken", "root")
    child_on(two, org, "far", "shard-1")
    delete(org, "far")
    child_on(two, org, "far", "root")
    answer = undelete(two, "root:taken", "far")
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
    assert len(kept(two, "root:taken")) == 1


def test_deleted_workspaces_are_restored_where_their_parent_has_moved(two: Fleet) -> None:
    org = make_on(two, "moving", "root")
    child_on(two, org, "left", "root")
    delete(org, "left")
    migrate(two, "moving", cluster_of(org), "shard-1")
    wait_for_phase(two, "moving", "Completed")
    eventually(lambda: [one["name"] for one in kept(two, "root:moving")] == ["left"])
    assert undelete(two, "root:moving", "left").status == 200
    assert two.client(cluster="root:moving:left").get(f"{MAPS}/kept").status == 200
    eventually(lambda: phase(org, "left") == "Ready")


def test_what_a_stopped_shard_keeps_is_missed_by_name(two: Fleet) -> None:
    org = make_on(two, "away", "root")
    child_on(two, org, "far", "shard-1")
    delete(org, "far")
    two["shard-1"].pause()
    try:
        found = two.client().get("/services/trash/clusters/root:away/workspaces")
        assert found.status == 200
        assert "shard-1" in dict(found.headers)["warning"]
        answer = undelete(two, "root:away", "far")
        assert answer.status == 503
        assert "shard-1" in answer.json["message"]
    finally:
        two["shard-1"].resume()
    eventually(lambda: undelete(two, "root:away", "far").status == 200)
