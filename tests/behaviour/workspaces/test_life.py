"""The life of a workspace, from outside: made, entered, held up, deleted."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable

import pytest

from pykcp.testing.client import APPLY, MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER as CLUSTER
from pykcp.testing.workspaces import WORKSPACES, inside, is_ready, make_workspace
from pykcp.testing.workspaces import post_workspace as make
from pykcp.types import Object

TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
_numbers = itertools.count(1)


def typed(kind: str) -> Object:
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": kind}


def is_gone(parent: TestClient, name: str) -> Callable[[], bool]:
    return lambda: parent.get(f"{WORKSPACES}/{name}").status == 404


@pytest.fixture
def org(shard: ServerProcess, alice: TestClient) -> TestClient:
    """alice in an organization of her own."""
    name = f"org{next(_numbers)}"
    make_workspace(alice, name)
    return alice.in_cluster(f"root:{name}")


def test_workspaces_can_be_applied_again_and_again(org: TestClient) -> None:
    """The names of workspaces are restricted by their schema, and metadata has more fields."""
    path = f"{WORKSPACES}/applied"
    body = {**typed("Workspace"), "metadata": {"name": "applied"}}
    assert org.patch(path, body, APPLY, fieldManager="flux").status == 201
    eventually(is_ready(org, "applied"))
    body["metadata"]["labels"] = {"team": "a"}
    applied = org.patch(path, body, APPLY, fieldManager="flux")
    assert applied.status == 200, applied
    managers = applied.json["metadata"]["managedFields"]
    owned = next(m["fieldsV1"] for m in managers if m["manager"] == "flux")
    assert owned == {"f:metadata": {"f:labels": {"f:team": {}}}}
    changed = org.patch(path, {"metadata": {"labels": {"b": "c"}}}, MERGE, fieldManager="me")
    assert "me" in [m["manager"] for m in changed.json["metadata"]["managedFields"]]


def test_what_a_workspace_starts_with(org: TestClient) -> None:
    make(org, "team")
    found = eventually(is_ready(org, "team"))
    metadata, spec, status = found["metadata"], found["spec"], found["status"]
    assert metadata["finalizers"] == ["core.kcp.io/logicalcluster"]
    assert metadata["labels"] == {"tenancy.kcp.io/phase": "Ready"}
    annotations = metadata["annotations"]
    assert annotations["core.kcp.io/shard"] == "root"
    assert annotations["internal.tenancy.kcp.io/shard"] == "1pfxsevk"
    assert annotations["internal.tenancy.kcp.io/cluster"] == spec["cluster"]
    assert annotations["experimental.tenancy.kcp.io/owner"] == '{"username":"alice"}'
    assert spec["type"] == {"name": "universal", "path": "root"}
    assert spec["URL"].endswith(f"{org.prefix}:team")
    assert [c["type"] for c in status["conditions"]] == [
        "WorkspaceInitialized",
        "WorkspaceScheduled",
    ]

    team = inside(org, "team")
    cluster = team.get(CLUSTER).json
    assert cluster["metadata"]["annotations"]["kcp.io/path"].endswith(":team")
    assert cluster["spec"]["createdBy"]["username"] == "alice"
    assert cluster["spec"]["initializers"] == ["root:universal", "system:apibindings"]
    assert cluster["spec"]["owner"]["uid"] == metadata["uid"]
    assert cluster["status"]["phase"] == "Ready"
    assert cluster["status"]["URL"].endswith(f"/clusters/{spec['cluster']}")
    names = [n["metadata"]["name"] for n in team.get("/api/v1/namespaces").json["items"]]
    assert names == ["default", "kube-system"]
    assert team.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
    assert team.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").status == 200
    bindings = team.get(BINDINGS).json["items"]
    assert {b["spec"]["reference"]["export"]["name"] for b in bindings} == {
        "tenancy.kcp.io",
        "topology.kcp.io",
    }
    assert all(b["status"]["phase"] == "Bound" for b in bindings)
    admin = team.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/workspace-admin")
    assert [s["name"] for s in admin.json["subjects"]] == ["alice"]


def test_later_workspaces_start_with_the_same_as_the_first(alice: TestClient) -> None:
    """They are made from a template; nothing of the first is left in them."""
    org = alice.in_cluster(f"root:{'org' + str(next(_numbers))}")
    make_workspace(alice, org.prefix.rpartition(":")[2], type={"name": "organization"})
    kinds = (
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
        "/api/v1/configmaps",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        BINDINGS,
    )
    uids: set[str] = set()

    def content(name: str) -> list[str]:
        made = make_workspace(org, name)
        own = {made["spec"]["cluster"]: "CLUSTER", f"{org.prefix[10:]}:{name}": "PATH"}
        texts = []
        for kind in kinds:
            for item in inside(org, name).get(kind).json["items"]:
                metadata = item["metadata"]
                assert metadata["uid"] not in uids
                uids.add(metadata["uid"])
                words = own | {metadata["uid"]: "UID", metadata.pop("resourceVersion"): ""}
                if kind == BINDINGS:
                    words[metadata["name"]] = "NAME"
                text = json.dumps(item)
                for word, stands_for in words.items():
                    text = text.replace(f'"{word}"', f'"{stands_for}"')
                texts.append(re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text))
        return sorted(texts)

    first = content("first")
    assert len(first) == 9
    assert [content(name) for name in ("second", "third")] == [first, first]


def test_any_prefix_of_a_path_may_be_a_cluster_name(org: TestClient) -> None:
    make(org, "a")
    a = eventually(is_ready(org, "a"))
    make(inside(org, "a"), "b")
    b = eventually(is_ready(inside(org, "a"), "b"))
    path = org.prefix.removeprefix("/clusters/")
    for way in (f"{path}:a:b", f"{a['spec']['cluster']}:b", b["spec"]["cluster"]):
        found = org.in_cluster(way).get(CLUSTER)
        assert found.json["metadata"]["annotations"]["kcp.io/cluster"] == b["spec"]["cluster"]


def test_the_admin_binding_comes_back(org: TestClient) -> None:
    make(org, "mine")
    eventually(is_ready(org, "mine"))
    mine, path = inside(org, "mine"), "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    before = mine.get(f"{path}/workspace-admin").json["metadata"]["uid"]
    assert mine.delete(f"{path}/workspace-admin").status == 200

    def is_back() -> bool:
        found = mine.get(f"{path}/workspace-admin")
        return found.status == 200 and found.json["metadata"]["uid"] != before

    eventually(is_back)


def test_a_subtree_goes_as_a_whole(shard: ServerProcess, org: TestClient) -> None:
    clusters = []
    here = org
    for _ in range(3):
        make(here, "down")
        clusters.append(eventually(is_ready(here, "down"))["spec"]["cluster"])
        here = inside(here, "down")
    made = here.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    assert made.status == 201, made
    assert org.delete(f"{WORKSPACES}/down").status == 200
    eventually(is_gone(org, "down"))
    for cluster in clusters:
        masters = shard.client(cluster=cluster)
        for path in ("/api/v1/namespaces", "/api/v1/configmaps", BINDINGS, "/api/v1/secrets"):
            assert masters.get(path).json["items"] == [], path
        assert org.in_cluster(cluster).get(CLUSTER).status == 403


def test_what_blocks_a_deletion_is_named(org: TestClient) -> None:
    make(org, "held")
    eventually(is_ready(org, "held"))
    held = inside(org, "held")
    path = "/api/v1/namespaces/default/configmaps"
    metadata = {"name": "kept", "finalizers": ["example.com/keep"]}
    assert held.post(path, {"metadata": metadata}).status == 201
    assert held.post(path, {"metadata": {"name": "free"}}).status == 201
    assert org.delete(f"{WORKSPACES}/held").status == 200

    def is_told() -> Object | None:
        found = org.get(f"{WORKSPACES}/held").json
        conditions = {c["type"]: c for c in found["status"]["conditions"]}
        condition: Object | None = conditions.get("WorkspaceContentDeleted")
        return condition if found["status"]["phase"] == "Deleting" else None

    told = eventually(is_told)
    assert told["status"] == "False"
    assert told["reason"] == "SomeResourcesRemain"
    assert "configmaps. has 1 resource instances" in told["message"]
    assert "example.com/keep in 1 resource instances" in told["message"]
    assert held.get(f"{path}/free").status == 404
    freed = held.patch(f"{path}/kept", {"metadata": {"finalizers": None}}, MERGE)
    assert freed.status == 200, freed
    eventually(is_gone(org, "held"))


def test_a_workspace_waits_for_a_shard(shard: ServerProcess, org: TestClient) -> None:
    make(org, "far", location={"selector": {"matchLabels": {"place": "far"}}})

    def is_unschedulable() -> Object | None:
        conditions = org.get(f"{WORKSPACES}/far").json["status"].get("conditions") or ()
        return next((c for c in conditions if c["type"] == "WorkspaceScheduled"), None)

    condition = eventually(is_unschedulable)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == "No available shards to schedule the workspace"
    root = shard.client(cluster="root")
    path = "/apis/core.kcp.io/v1alpha1/shards/root"
    assert root.patch(path, {"metadata": {"labels": {"place": "far"}}}, MERGE).status == 200
    eventually(is_ready(org, "far"))


def test_addresses_follow_their_shard(shard: ServerProcess, org: TestClient) -> None:
    make_workspace(org, "there")
    root, path = shard.client(cluster="root"), "/apis/core.kcp.io/v1alpha1/shards/root"
    before = root.get(path).json["spec"]["externalURL"]

    def move(url: str) -> None:
        assert root.patch(path, {"spec": {"externalURL": url}}, MERGE).status == 200
        wanted = f"{url}{org.prefix}:there"
        eventually(lambda: org.get(f"{WORKSPACES}/there").json["spec"]["URL"] == wanted)

    move("https://elsewhere.example")
    move(before)


def test_an_initializer_holds_a_workspace_until_it_is_done(
    shard: ServerProcess, org: TestClient
) -> None:
    kind = {
        **typed("WorkspaceType"),
        "metadata": {"name": "slow"},
        "spec": {
            "initializer": True,
            "extend": {"with": [{"name": "universal", "path": "root"}]},
        },
    }
    assert org.post(TYPES, kind).status == 201
    path = org.prefix.removeprefix("/clusters/")
    make(org, "child", type={"name": "slow", "path": path})

    def is_waiting() -> Object | None:
        found: Object = org.get(f"{WORKSPACES}/child").json
        return found if found["status"].get("initializers") else None

    waiting = eventually(is_waiting)
    (initializer,) = waiting["status"]["initializers"]
    assert initializer.endswith(":slow")
    assert waiting["status"]["phase"] == "Initializing"
    masters = shard.client(cluster=waiting["spec"]["cluster"])
    cluster = masters.get(CLUSTER).json
    assert any(k.startswith("initializer.internal.kcp.io/") for k in cluster["metadata"]["labels"])
    done = masters.patch(f"{CLUSTER}/status", {"status": {"initializers": []}}, MERGE)
    assert done.status == 200, done
    ready = eventually(is_ready(org, "child"))
    assert "initializers" not in ready["status"]
    labels = masters.get(CLUSTER).json["metadata"]["labels"]
    assert labels == {"tenancy.kcp.io/phase": "Ready"}


def test_workspaces_outlive_a_crash(shard: ServerProcess, org: TestClient) -> None:
    names = [f"w{i}" for i in range(20)]
    for name in names:
        make(org, name)
    shard.kill()
    shard.start()
    again = shard.client(cluster=org.prefix.removeprefix("/clusters/"))
    for name in names:
        found = eventually(is_ready(again, name))
        assert shard.client(cluster=found["spec"]["cluster"]).get(CLUSTER).status == 200
