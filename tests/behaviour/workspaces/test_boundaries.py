"""What the administrator of a workspace tries on others, and on the system."""

from __future__ import annotations

import itertools
import json

import pytest

from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import (
    LOGICAL_CLUSTER,
    WORKSPACES,
    inside,
    is_ready,
    make_workspace,
)
from pykcp.types import Object

CONFIG_MAPS = "/api/v1/configmaps"
BOB = {"username": "bob", "groups": ["system:masters"]}
OWNER = "experimental.tenancy.kcp.io/owner"
_numbers = itertools.count(1)


@pytest.fixture
def bobs(shard: ServerProcess, alice: TestClient) -> TestClient:
    """bob in a workspace of his own, in which he may do everything."""
    name = f"bobs{next(_numbers)}"
    make_workspace(alice, name, type={"name": "universal", "path": "root"})
    there = shard.client(cluster=f"root:{name}")
    group = "rbac.authorization.k8s.io"
    there.post(
        f"/apis/{group}/v1/clusterrolebindings",
        {
            "metadata": {"name": "bob"},
            "subjects": [{"kind": "User", "name": "bob", "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": group},
        },
    )
    return there.with_token("bob-token")


def workspace(name: str, annotations: Object, **spec: object) -> Object:
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"type": {"name": "universal", "path": "root"}, **spec},
    }


@pytest.mark.parametrize("name", ["{victim}", "{victim}//x", "system:admin", "root"])
def test_nobody_chooses_the_name_of_a_cluster(
    shard: ServerProcess, bobs: TestClient, name: str
) -> None:
    """The name that a workspace asks for could be somebody's home, or a place inside one."""
    victim = home_cluster_name("alice")
    asked = name.format(victim=victim)
    made = bobs.post(WORKSPACES, workspace("w", {"internal.tenancy.kcp.io/cluster": asked}))
    assert made.status == 201, made
    found = eventually(is_ready(bobs, "w"))
    assert found["spec"]["cluster"].isalnum()
    assert found["spec"]["cluster"] not in (asked, victim)
    assert inside(bobs, "w").get(CONFIG_MAPS).status == 200
    for place in (victim, "root"):
        assert bobs.in_cluster(place).get(CONFIG_MAPS).status == 403


def test_a_workspace_that_waits_cannot_be_given_another_owner(
    shard: ServerProcess, bobs: TestClient
) -> None:
    """Whoever initializes it may act as its owner: nobody else may say who that is."""
    nowhere = {"selector": {"matchLabels": {"no": "shard"}}}
    assert bobs.post(WORKSPACES, workspace("w", {}, location=nowhere)).status == 201
    at = f"{WORKSPACES}/w"
    eventually(lambda: bobs.get(at).json["status"]["phase"] == "Unavailable")
    claims = {OWNER: json.dumps(BOB), "authorization.kcp.io/required-groups": "mine"}
    changed = bobs.patch(
        at, {"metadata": {"annotations": claims}, "spec": {"location": {"selector": None}}}
    )
    assert changed.status == 200, changed
    eventually(is_ready(bobs, "w"))
    cluster = inside(shard.client(cluster=bobs.prefix.removeprefix("/clusters/")), "w")
    found = cluster.get(LOGICAL_CLUSTER).json
    assert found["spec"]["createdBy"]["groups"] == ["system:authenticated"]
    assert "authorization.kcp.io/required-groups" not in found["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"metadata": {"annotations": {"kcp.io/path": "root"}}},
            "metadata.annotations[kcp.io/path] is immutable",
        ),
        (
            {"metadata": {"annotations": {"internal.tenancy.kcp.io/type": "root:root"}}},
            "metadata.annotations[internal.tenancy.kcp.io/type] is immutable",
        ),
        (
            {"metadata": {"annotations": {"internal.apis.kcp.io/resource-bindings": None}}},
            "metadata.annotations[internal.apis.kcp.io/resource-bindings] is immutable",
        ),
        (
            {"metadata": {"annotations": {"internal.kcp.io/migrating": "x"}}},
            "metadata.annotations[internal.kcp.io/migrating] is immutable",
        ),
        ({"spec": {"owner": {"uid": "other"}}}, "spec.owner is immutable"),
    ],
)
def test_a_logical_cluster_is_where_and_what_it_is(
    bobs: TestClient, change: Object, why: str
) -> None:
    """By its path others find it, by its type its parent limits it, with its owner it goes."""
    reply = bobs.patch(LOGICAL_CLUSTER, change)
    assert reply.status == 403, reply
    assert reply.json["message"].partition(" is forbidden: ")[2] == why


def test_a_workspace_that_becomes_a_mount_can_still_be_deleted(
    shard: ServerProcess, bobs: TestClient
) -> None:
    """Its logical cluster goes with it, as that of any other."""
    cluster = make_workspace(bobs, "w", type={"name": "universal", "path": "root"})["spec"][
        "cluster"
    ]
    mount = {"ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}
    assert bobs.patch(f"{WORKSPACES}/w", {"spec": {"mount": mount}}).status == 200
    assert bobs.delete(f"{WORKSPACES}/w").status == 200
    eventually(lambda: bobs.get(f"{WORKSPACES}/w").status == 404)
    assert shard.client(cluster=cluster).get(LOGICAL_CLUSTER).status == 404


def test_a_name_is_only_a_name(shard: ServerProcess, root: TestClient, bobs: TestClient) -> None:
    """It is part of the paths of what is in one's home, and of what those start with."""
    make_workspace(bobs, "w", type={"name": "universal", "path": "root"})
    name = 'mal","kcp.io/more":"x'
    headers = {"impersonate-user": name, "impersonate-group": "system:authenticated"}
    eventually(lambda: root.get(f"{WORKSPACES}/~", headers=headers).status == 200)
    home = shard.client(cluster=home_cluster_name(name))
    made = home.post(WORKSPACES, workspace("w", {}), headers=headers)
    assert made.status == 201, made
    cluster = eventually(is_ready(home, "w"))["spec"]["cluster"]
    bindings = shard.client(cluster=cluster).get("/apis/apis.kcp.io/v1alpha2/apibindings").json
    assert bindings["items"]
    for binding in bindings["items"]:
        annotations = binding["metadata"]["annotations"]
        assert annotations["kcp.io/path"] == f"user:{name}:w"
        assert "kcp.io/more" not in annotations
