"""The tree of workspaces in one request: what there is, in which order, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.cli.plugins.access.client_config import ClientConfig
from pykcp.cli.plugins.access.kubeconfig import files_of_environment
from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.workspace.tree import WorkspaceNode, graft, grow
from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object

CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
RBAC = "rbac.authorization.k8s.io"


def make(parent: TestClient, name: str, labels: dict[str, str] | None = None) -> None:
    metadata = {"name": name, "labels": labels or {}}
    kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
    made = parent.post(WORKSPACES, {**kind, "metadata": metadata, "spec": {}})
    assert made.status == 201, made
    address = f"{WORKSPACES}/{name}"
    eventually(lambda: (parent.get(address).json.get("status") or {}).get("phase") == "Ready")


def is_gone(parent: TestClient, name: str) -> Callable[[], bool]:
    return lambda: parent.get(f"{WORKSPACES}/{name}").status == 404


def below(client: TestClient, path: str, **query: Any) -> Any:
    bare = client.in_cluster("")
    bare.prefix = ""
    return bare.get(f"/services/tree/clusters/{path}", **query)


def tree(client: TestClient, path: str, **query: Any) -> Object:
    found = below(client, path, **query)
    assert found.status == 200, found
    document: Object = found.json
    return document


def paths(document: Object) -> list[str]:
    return [item["path"] for item in document["items"]]


FOREST: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("root", "wood", {}),
    ("root:wood", "oak", {"leaves": "yes"}),
    ("root:wood:oak", "bough", {}),
    ("root:wood:oak", "acorn", {"leaves": "no"}),
    ("root:wood", "ash", {"leaves": "yes"}),
    ("root:wood:ash", "twig", {}),
    ("root:wood:ash:twig", "bud", {"leaves": "yes"}),
)
IN_ORDER = [
    "root:wood:ash",
    "root:wood:ash:twig",
    "root:wood:ash:twig:bud",
    "root:wood:oak",
    "root:wood:oak:acorn",
    "root:wood:oak:bough",
]


@pytest.fixture(scope="module")
def wood(shard: ServerProcess) -> TestClient:
    """system:masters, when all of it is ready."""
    client = shard.client(cluster="root")
    for parent, name, labels in FOREST:
        make(client.in_cluster(parent), name, labels)
    return client


def test_all_of_it_parents_first_by_name(wood: TestClient) -> None:
    document = tree(wood, "root:wood")
    assert document["kind"] == "WorkspaceTree"
    assert document["apiVersion"] == "tenancy.pykcp.io/v1alpha1"
    assert document["path"] == "root:wood"
    assert paths(document) == IN_ORDER
    ash = document["items"][0]
    live = wood.in_cluster("root:wood").get(f"{WORKSPACES}/ash").json
    assert ash == {
        "path": "root:wood:ash",
        "name": "ash",
        "cluster": live["spec"]["cluster"],
        "type": "root:universal",
        "phase": "Ready",
        "URL": live["spec"]["URL"],
        "labels": {"leaves": "yes", "tenancy.kcp.io/phase": "Ready"},
        "creationTimestamp": live["metadata"]["creationTimestamp"],
        "children": 1,
    }
    assert document["items"][2]["children"] == 0
    by_name = tree(wood, document["cluster"])
    assert by_name == {**document, "metadata": by_name["metadata"]}


def test_depth_phase_and_labels(wood: TestClient) -> None:
    shallow = tree(wood, "root:wood", depth=1)
    assert [(i["name"], i["children"]) for i in shallow["items"]] == [("ash", 1), ("oak", 2)]
    assert len(tree(wood, "root:wood", depth=2)["items"]) == 5
    uncounted = tree(wood, "root:wood", depth=2, counts="false")["items"]
    assert [i["name"] for i in uncounted if "children" in i] == ["ash", "oak"]
    assert len(uncounted) == 5
    leaved = tree(wood, "root:wood", labelSelector="leaves=yes")
    assert [i["name"] for i in leaved["items"]] == ["ash", "bud", "oak"]
    assert paths(tree(wood, "root:wood", phase="Ready,Scheduling")) == IN_ORDER
    assert paths(tree(wood, "root:wood", phase="Scheduling")) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 100])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_pages_make_the_whole(wood: TestClient, limit: int, depth: int) -> None:
    whole = paths(tree(wood, "root:wood", depth=depth))
    found: list[str] = []
    more: dict[str, str] = {}
    while True:
        page = tree(wood, "root:wood", depth=depth, limit=limit, **more)
        assert len(page["items"]) <= limit
        found += paths(page)
        if "continue" not in page["metadata"]:
            break
        more = {"continue": page["metadata"]["continue"]}
    assert found == whole


def test_a_page_goes_on_behind_what_is_gone(wood: TestClient) -> None:
    parent = wood.in_cluster("root:wood:oak:bough")
    for name in ("a", "b", "c"):
        make(parent, name)
    make(wood.in_cluster("root:wood:oak:bough:a"), "below")
    path = "root:wood:oak:bough"
    page = tree(wood, path, limit=2)
    assert paths(page) == [f"{path}:a", f"{path}:a:below"]
    for name in ("a", "b"):
        assert parent.delete(f"{WORKSPACES}/{name}").status == 200
        eventually(is_gone(parent, name))
    rest = tree(wood, path, limit=2, **{"continue": page["metadata"]["continue"]})
    assert paths(rest) == [f"{path}:c"]
    assert parent.delete(f"{WORKSPACES}/c").status == 200
    eventually(is_gone(parent, "c"))


@pytest.mark.parametrize(
    "query",
    [
        {"continue": "bm9uc2Vuc2U"},
        {"continue": "%"},
        {"limit": "-1"},
        {"limit": "x"},
        {"depth": "-2"},
        {"labelSelector": "a in"},
    ],
)
def test_what_is_not_understood(wood: TestClient, query: dict[str, str]) -> None:
    assert below(wood, "root:wood", **query).status == 400


def test_other_methods_and_paths(wood: TestClient, bob: TestClient) -> None:
    bare = wood.in_cluster("")
    bare.prefix = ""
    assert bare.post("/services/tree/clusters/root", {}).status == 405
    assert bare.get("/services/tree/clusters/*").status == 404
    assert bare.get("/services/tree/clusters/root/api").status == 404
    missing = below(wood, "root:none")
    assert missing.status == 404
    assert missing.json["message"] == 'workspaces.tenancy.kcp.io "root:none" not found'
    # strangers learn nothing of what there is
    here, nowhere = bob_sees(bob, "root:wood:oak"), bob_sees(bob, "root:none:oak")
    assert here.status == nowhere.status == 403
    assert here.json == nowhere.json


def bob_sees(bob: TestClient, path: str) -> Any:
    bob.prefix = ""
    return bob.get(f"/services/tree/clusters/{path}")


def allow(cluster: TestClient, user: str) -> None:
    """Let a user in, and list workspaces."""
    rules = [
        {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["list"]},
        {"nonResourceURLs": ["/"], "verbs": ["access"]},
    ]
    role = {"metadata": {"name": "look"}, "rules": rules}
    assert cluster.post(f"/apis/{RBAC}/v1/clusterroles", role).status == 201
    binding = {
        "metadata": {"name": "look"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
        "roleRef": {"kind": "ClusterRole", "name": "look", "apiGroup": RBAC},
    }
    assert cluster.post(f"/apis/{RBAC}/v1/clusterrolebindings", binding).status == 201


def test_children_are_seen_by_those_who_may_list_them(wood: TestClient, bob: TestClient) -> None:
    allow(wood.in_cluster("root:wood"), "bob")
    allow(wood.in_cluster("root:wood:ash:twig"), "bob")
    found = bob_sees(bob, "root:wood").json
    assert paths(found) == ["root:wood:ash", "root:wood:oak"]
    assert all("children" not in item for item in found["items"])
    # what is below a place that is closed to them can still be looked at from there
    assert paths(bob_sees(bob, "root:wood:ash:twig").json) == ["root:wood:ash:twig:bud"]
    allow(wood.in_cluster("root:wood:ash"), "bob")
    found = bob_sees(bob, "root:wood").json
    assert paths(found) == [*IN_ORDER[:3], "root:wood:oak"]
    assert [item.get("children") for item in found["items"]] == [1, 1, None, None]


def test_inactive_clusters_are_closed(wood: TestClient) -> None:
    twig = wood.in_cluster("root:wood:ash:twig")
    marked = {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}
    assert twig.patch(CLUSTER, marked, MERGE).status == 200
    assert paths(tree(wood, "root:wood:ash")) == ["root:wood:ash:twig"]
    assert "children" not in tree(wood, "root:wood:ash")["items"][0]
    refused = below(wood, "root:wood:ash:twig")
    assert refused.status == 403
    assert "logical cluster is marked inactive" in refused.json["message"]
    unmarked = {"metadata": {"annotations": {"core.kcp.io/inactive": None}}}
    assert twig.patch(CLUSTER, unmarked, MERGE).status == 200
    assert len(tree(wood, "root:wood:ash")["items"]) == 2


@pytest.mark.parametrize("context", ["base", "shard-base"])
@pytest.mark.parametrize("is_full", [True, False])
def test_the_plugin_draws_the_same_either_way(
    shard: ServerProcess, wood: TestClient, context: str, is_full: bool
) -> None:
    config = ClientConfig(files_of_environment(str(shard.kubeconfig)), {"context": context}, None)
    client = RestClient(config.target())
    at_once, by_level = WorkspaceNode("root", "root"), WorkspaceNode("root", "root")
    assert graft(client, at_once, is_full=is_full)
    grow(client, by_level, is_full=is_full)
    assert at_once == by_level
    client.close()
