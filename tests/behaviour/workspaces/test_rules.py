"""What admission says to writes of workspaces, types, shards and logical clusters."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import bind, make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
WORKSPACES = f"{TENANCY}/workspaces"
TYPES = f"{TENANCY}/workspacetypes"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
OWNER = "experimental.tenancy.kcp.io/owner"
GROUPS = "authorization.kcp.io/required-groups"

_numbers = itertools.count(1)


def a_workspace(type_name: str = "", *, path: str = "", **more: Any) -> Object:
    spec: Object = {**more}
    if type_name:
        spec["type"] = {"name": type_name, **({"path": path} if path else {})}
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": f"w{next(_numbers)}"},
        "spec": spec,
    }


def a_type(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": {"name": name},
        "spec": spec,
    }


def refused(reply: Any, why: str) -> None:
    assert reply.status == 403, reply
    assert reply.json["reason"] == "Forbidden"
    assert reply.json["message"].partition(" is forbidden: ")[2] == why


def test_a_workspace_gets_the_default_type_and_its_owner(alice: TestClient) -> None:
    """Without a type it is the parent's default child, and its creator is written down."""
    made = alice.post(WORKSPACES, a_workspace()).json
    assert made["spec"]["type"] == {"name": "organization", "path": "root"}
    owner = json.loads(made["metadata"]["annotations"][OWNER])
    assert owner["username"] == "alice"
    assert owner["groups"] == ["devs", "system:authenticated"]


def test_the_system_owns_nothing(root: TestClient) -> None:
    """system:masters makes workspaces for others: no owner is noted."""
    made = root.post(WORKSPACES, a_workspace("universal")).json
    assert OWNER not in made["metadata"].get("annotations", {})
    assert made["spec"]["type"] == {"name": "universal", "path": "root"}


def test_an_owner_cannot_be_claimed(alice: TestClient) -> None:
    """What a client says about the owner or required groups is overwritten."""
    body = a_workspace("universal")
    body["metadata"]["annotations"] = {OWNER: '{"username":"bob"}', GROUPS: "mine"}
    made = alice.post(WORKSPACES, body).json
    assert json.loads(made["metadata"]["annotations"][OWNER])["username"] == "alice"
    assert GROUPS not in made["metadata"]["annotations"]


def test_required_groups_are_inherited(shard: ServerProcess) -> None:
    """A workspace asks of its visitors what the one around it does."""
    inside = a_parent(shard, "root:universal", **{GROUPS: "devs;ops,eu"})
    made = inside.post(WORKSPACES, a_workspace("universal")).json
    assert made["metadata"]["annotations"][GROUPS] == "devs;ops,eu"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            a_workspace("universal", cluster="abc"),
            "spec.Cluster can only be set by system privileged users",
        ),
        (
            a_workspace("universal", URL="https://x.example"),
            "spec.URL can only be set by system privileged users",
        ),
        (a_workspace("nosuch"), 'workspace type "nosuch" cannot be resolved'),
        (
            a_workspace("nosuch", path="root:elsewhere"),
            (
                'Internal error occurred: workspacetypes.tenancy.kcp.io "root:elsewhere:nosuch"'
                " not found"
            ),
        ),
        (a_workspace("root"), "workspace type root:root cannot have any parent"),
        (
            a_workspace("team"),
            (
                "workspace type root:team only allows [root:organization root:team] parent "
                "workspaces, but parent type root:root only implements [root:root root:universal]"
            ),
        ),
        (
            a_workspace(mount={"ref": {"apiVersion": "v1", "name": "n"}}),
            "spec.mount.kind must be set",
        ),
        (
            a_workspace(
                "universal",
                mount={"ref": {"apiVersion": "v1", "kind": "K", "name": "n"}},
            ),
            "spec.type cannot be set for mounted workspaces",
        ),
    ],
)
def test_workspaces_that_cannot_be(alice: TestClient, given: Object, why: str) -> None:
    refused(alice.post(WORKSPACES, given), why)


def test_only_the_system_sets_the_address(alice: TestClient) -> None:
    """Others may change a workspace, but not where it leads."""
    name = alice.post(WORKSPACES, a_workspace("universal")).json["metadata"]["name"]
    one = f"{WORKSPACES}/{name}"
    assert alice.patch(one, {"metadata": {"labels": {"a": "b"}}}).status == 200
    refused(
        alice.patch(one, {"spec": {"URL": "https://x.example"}}),
        "spec.URL can only be changed by system privileged users",
    )
    assert alice.patch(one, {"spec": {"type": {"name": "team"}}}).status == 422


def test_types_give_labels(root: TestClient, alice: TestClient) -> None:
    """A type's labels are put on new workspaces, unless those have them."""
    given = a_type("labelled", additionalWorkspaceLabels={"tier": "gold", "env": "dev"})
    assert root.post(TYPES, given).status == 201
    body = a_workspace("labelled")
    body["metadata"]["labels"] = {"env": "prod"}
    made = alice.post(WORKSPACES, body).json
    assert made["metadata"]["labels"]["tier"] == "gold"
    assert made["metadata"]["labels"]["env"] == "prod"


def test_a_type_must_be_usable_with_all_that_it_extends(
    shard: ServerProcess, root: TestClient
) -> None:
    """Whoever makes a workspace needs `use` on its type and on every base of it."""
    assert root.post(TYPES, a_type("base")).status == 201
    extended = a_type("extended", extend={"with": [{"name": "base", "path": "root"}]})
    assert root.post(TYPES, extended).status == 201
    inside = a_parent(shard, "root:universal", admin="bob")
    bob = inside.with_token("bob-token")
    why = "unable to use workspace type root:{}: missing verb='use' permission on workspacetype"
    refused(bob.post(WORKSPACES, a_workspace("extended")), why.format("extended"))
    allow_use(root, "bob", "extended")
    refused(bob.post(WORKSPACES, a_workspace("extended")), why.format("base"))
    allow_use(root, "bob", "base")
    assert bob.post(WORKSPACES, a_workspace("extended")).status == 201


def test_types_that_go_in_circles(root: TestClient) -> None:
    """They can be written, since a base may come later, but no workspace can be one."""
    for one, other in (("ring-a", "ring-b"), ("ring-b", "ring-a")):
        given = a_type(one, extend={"with": [{"name": other, "path": "root"}]})
        assert root.post(TYPES, given).status == 201
    refused(
        root.post(WORKSPACES, a_workspace("ring-a")),
        "circular dependency detected in workspace type root:ring-a: root:ring-a -> root:ring-b",
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            a_type("t", defaultChildWorkspaceType={"name": "universal"}),
            ".spec.defaultChildWorkspaceType.path must be set",
        ),
        (
            a_type(
                "t", limitAllowedChildren={"types": [{"name": "a", "path": "b"}, {"name": "c"}]}
            ),
            ".spec.limitAllowedChildren.types[1].path must be set",
        ),
        (
            a_type("t", limitAllowedParents={"types": [{"name": "a"}]}),
            ".spec.limitAllowedParents.types[0].path must be set",
        ),
        (a_type("any"), 'metadata.name: Invalid value: "any": name is reserved'),
        (a_type("system"), 'metadata.name: Invalid value: "system": name is reserved'),
        (
            a_type("t", defaultAPIBindings=[{"path": "root:nowhere", "export": "x"}]),
            (
                "unable to create or update WorkspaceType: no permission to bind to export "
                "root:nowhere:x"
            ),
        ),
    ],
)
def test_types_that_cannot_be(alice: TestClient, given: Object, why: str) -> None:
    refused(alice.post(TYPES, given), why)
    # Of a large one only what is checked is decoded.
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    large = {
        **given,
        "spec": {**given["spec"], "initializer": True, "initializerPermissions": [rule] * 1000},
    }
    refused(alice.post(TYPES, large), why)


def test_default_bindings_need_the_right_to_bind(shard: ServerProcess, root: TestClient) -> None:
    """Nobody makes the system bind for others what they may not bind themselves."""
    inside = a_parent(shard, "root:universal", admin="bob")
    bob = inside.with_token("bob-token")
    export = {"path": "root", "export": "shards.core.kcp.io"}
    why = "unable to create or update WorkspaceType: no permission to bind to export root:shards.core.kcp.io"
    refused(bob.post(TYPES, a_type("sneaky", defaultAPIBindings=[export])), why)
    assert inside.post(TYPES, a_type("sneaky", defaultAPIBindings=[export])).status == 201
    # What is there stays; what comes new is judged.
    one = f"{TYPES}/sneaky"
    assert bob.patch(one, {"spec": {"initializer": True}}).status == 200
    tenancy = {"path": "root", "export": "tenancy.kcp.io"}
    assert bob.patch(one, {"spec": {"defaultAPIBindings": [export, tenancy]}}).status == 200
    topology = {"path": "root", "export": "migration.kcp.io"}
    reply = bob.patch(one, {"spec": {"defaultAPIBindings": [export, tenancy, topology]}})
    assert reply.status == 403


def test_the_root_type_is_roots(shard: ServerProcess) -> None:
    inside = a_parent(shard, "root:universal")
    refused(
        inside.post(TYPES, a_type("root")),
        "root workspace type can only be created in root cluster",
    )


def test_shards_have_three_addresses(root: TestClient) -> None:
    """What a shard does not say about itself is its base address."""
    shards = "/apis/core.kcp.io/v1alpha1/shards"

    def a_shard(name: str, **spec: str) -> Object:
        head = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard"}
        return {**head, "metadata": {"name": name}, "spec": spec}

    made = root.post(shards, a_shard("amber", baseURL="https://amber.example")).json
    assert made["spec"] == {
        "baseURL": "https://amber.example",
        "externalURL": "https://amber.example",
        "virtualWorkspaceURL": "https://amber.example",
    }
    root.delete(f"{shards}/amber")
    missing = root.post(shards, a_shard("coral"))
    assert missing.status == 500
    assert missing.json["message"] == "spec.baseURL is required"


def test_logical_clusters_are_the_systems(shard: ServerProcess, root: TestClient) -> None:
    """Others neither make nor delete them, nor take the finalizer that keeps their content."""
    inside = a_parent(shard, "root:universal", admin="bob")
    bob = inside.with_token("bob-token")
    assert (
        "core.kcp.io/logicalcluster-deletion"
        in (inside.get(LOGICAL_CLUSTER).json["metadata"]["finalizers"])
    )
    refused(bob.delete(LOGICAL_CLUSTER), "LogicalCluster cannot be deleted")
    refused(
        bob.post(
            LOGICAL_CLUSTER.rpartition("/")[0],
            {
                "apiVersion": "core.kcp.io/v1alpha1",
                "kind": "LogicalCluster",
                "metadata": {"name": "cluster"},
            },
        ),
        "LogicalCluster cannot be created",
    )
    refused(
        bob.patch(LOGICAL_CLUSTER, {"spec": {"initializers": ["root:universal"]}}),
        "spec.initializers is immutable",
    )
    kept = inside.patch(LOGICAL_CLUSTER, {"metadata": {"finalizers": []}}).json
    assert "core.kcp.io/logicalcluster-deletion" in kept["metadata"]["finalizers"]


def a_parent(
    shard: ServerProcess, type_name: str, admin: str = "", **annotations: str
) -> TestClient:
    """A ready logical cluster of a type that binds tenancy; system:masters in it."""
    inside = make_cluster(shard, f"parent{next(_numbers)}")
    given = {"internal.tenancy.kcp.io/type": type_name, **annotations}
    assert inside.patch(LOGICAL_CLUSTER, {"metadata": {"annotations": given}}).status == 200
    assert inside.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}}).status == 200
    bind(inside, shard.client(cluster="root"), "tenancy.kcp.io")
    if admin:
        group = "rbac.authorization.k8s.io"
        inside.post(
            f"/apis/{group}/v1/clusterrolebindings",
            {
                "metadata": {"name": "admin"},
                "subjects": [{"kind": "User", "name": admin, "apiGroup": group}],
                "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": group},
            },
        )
    return inside


def allow_use(root: TestClient, user: str, type_name: str) -> None:
    group = "rbac.authorization.k8s.io"
    name = f"use-{type_name}-{user}"
    rule = {
        "apiGroups": ["tenancy.kcp.io"],
        "resources": ["workspacetypes"],
        "resourceNames": [type_name],
        "verbs": ["use"],
    }
    roles = f"/apis/{group}/v1/clusterroles"
    assert root.post(roles, {"metadata": {"name": name}, "rules": [rule]}).status == 201
    made = root.post(
        f"/apis/{group}/v1/clusterrolebindings",
        {
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
        },
    )
    assert made.status == 201
