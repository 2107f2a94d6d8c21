"""initializingworkspaces and terminatingworkspaces, as their controllers see them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pykcp.machinery.kcp.hashes import initializer_label, terminator_label
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.rights import RBAC, grant

At = Callable[..., TestClient]
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MAPS = "/api/v1/namespaces/default/configmaps"
SPACES = "/api/v1/namespaces"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
TYPE = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType"}
_numbers = itertools.count(1)
ENDS = ("initializing", "terminating")


class World:
    """One workspace type with a controller's end of life, and workspaces that wait for it."""

    def __init__(self, at: At, end: str, permissions: list[dict[str, Any]] | None = None) -> None:
        self.at, self.end = at, end
        self.role = "initializer" if end == "initializing" else "terminator"
        self.type = f"type{next(_numbers)}"
        self.name = f"root:{self.type}"
        root = at("/clusters/root")
        spec: dict[str, Any] = {self.role: True}
        if permissions:
            spec[f"{self.role}Permissions"] = permissions
        made = root.post(TYPES, {**TYPE, "metadata": {"name": self.type}, "spec": spec})
        assert made.status == 201, made
        grant(root, "alice", _VERBS[end],
              "workspacetypes", "tenancy.kcp.io", self.type)  # fmt: skip

    def workspace(self, *more: str, creator: str = "carol") -> str:
        """A logical cluster that waits for this controller, and for others."""
        name = f"ws{next(_numbers)}"
        waiting = [self.name, *more]
        client = self.at(f"/clusters/{name}")
        labels = {"tenancy.kcp.io/phase": _PHASES[self.end]}
        label_of = initializer_label if self.end == "initializing" else terminator_label
        labels.update(label_of(one) for one in waiting)
        made = client.post(
            CLUSTERS,
            {
                "apiVersion": "core.kcp.io/v1alpha1",
                "kind": "LogicalCluster",
                "metadata": {"name": "cluster", "labels": labels, "finalizers": ["test.io/keep"]},
                "spec": {
                    "createdBy": {"username": creator, "groups": ["system:authenticated"]},
                    f"{self.role}s": waiting,
                },
            },
        )
        assert made.status == 201, made
        status = {"phase": _PHASES[self.end], f"{self.role}s": waiting}
        done = client.patch(f"{CLUSTERS}/cluster/status", {"status": status})
        assert done.status == 200, done
        client.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        if self.end == "terminating":
            assert client.delete(f"{CLUSTERS}/cluster").status in (200, 202)
        return name

    def view(self, cluster: str, user: str = "alice", name: str = "") -> TestClient:
        service = f"/services/{self.end}workspaces/{name or self.name}"
        return self.at(f"{service}/clusters/{cluster}", user)


_VERBS = {"initializing": "initialize", "terminating": "terminate"}
_PHASES = {"initializing": "Initializing", "terminating": "Terminating"}


def names(reply: Any) -> set[str]:
    assert reply.status == 200, reply
    return {item["metadata"]["annotations"]["kcp.io/cluster"] for item in reply.json["items"]}


@pytest.mark.parametrize("end", ENDS)
def test_a_controller_sees_only_its_own(at: At, end: str) -> None:
    ours, theirs = World(at, end), World(at, end)
    first, second = ours.workspace(), ours.workspace(theirs.name)
    other = theirs.workspace()
    assert names(ours.view("*").get(CLUSTERS)) == {first, second}
    assert names(theirs.view("*").get(CLUSTERS)) == {second, other}
    for selector in ("metadata.name=cluster", ""):
        query = {"fieldSelector": selector} if selector else {}
        assert names(ours.view("*").get(CLUSTERS, **query)) == {first, second}
    # No selector shows more than there is.
    assert names(ours.view("*").get(CLUSTERS, labelSelector="!nothing")) == {first, second}
    assert names(ours.view("*").get(CLUSTERS, labelSelector="a=b")) == set()
    assert ours.view(first).get(f"{CLUSTERS}/cluster").status == 200
    assert ours.view(other).get(f"{CLUSTERS}/cluster").status == 404
    assert ours.view(other).get(f"{CLUSTERS}/cluster/status").status == 404


@pytest.mark.parametrize("end", ENDS)
def test_who_may_come_in(at: At, end: str) -> None:
    world = World(at, end)
    workspace = world.workspace()
    for cluster in ("*", workspace):
        for path in (CLUSTERS, f"{CLUSTERS}/cluster", "/api/v1/configmaps"):
            reply = world.view(cluster, "bob").get(path)
            assert reply.status == 403, (cluster, path)
            assert "access denied" in reply.json["message"]
    nobody = world.view("*", "alice", "root:nosuch").get(CLUSTERS)
    assert nobody.status == 403
    unreadable = world.view("*", "alice", "nonsense").get(CLUSTERS)
    assert (unreadable.status, unreadable.body) == (
        500,
        f'Internal Server Error: "/services/{end}workspaces/nonsense/clusters/*{CLUSTERS}": '
        "access not permitted\n".encode(),
    )


@pytest.mark.parametrize("end", ENDS)
def test_it_takes_only_itself_off(at: At, end: str) -> None:
    world, other = World(at, end), World(at, end)
    workspace = world.workspace(other.name)
    view, field = world.view(workspace), f"{world.role}s"
    path = f"{CLUSTERS}/cluster/status"
    for wrong in ([world.name], [], [world.name, other.name, "root:more"]):
        reply = view.patch(path, {"status": {field: wrong}})
        assert (reply.status, reply.json["reason"]) == (422, "Invalid"), reply
        assert reply.json["message"].endswith(
            f'only removing the "{world.name}" {world.role} is supported'
        )
    assert view.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    done = view.patch(path, {"status": {field: [other.name]}})
    assert done.status == 200, done
    now = at(f"/clusters/{workspace}").get(f"{CLUSTERS}/cluster").json
    assert now["status"][field] == [other.name]


@pytest.mark.parametrize("end", ENDS)
def test_verbs_of_one(at: At, end: str) -> None:
    world = World(at, end)
    workspace = world.workspace()
    view = world.view(workspace)
    assert view.get(CLUSTERS).status == 405
    assert view.delete(f"{CLUSTERS}/cluster").status == 405
    assert view.patch(f"{CLUSTERS}/cluster", {"metadata": {"labels": {"a": "b"}}}).status == 405
    assert world.view("*").delete(f"{CLUSTERS}/cluster").status == 405


@pytest.mark.parametrize("end", ENDS)
def test_watch(at: At, end: str) -> None:
    """Workspaces come when they begin to wait and go when they no longer do."""
    world = World(at, end)
    first = world.workspace()
    events = world.view("*").watch(CLUSTERS)
    seen = next(events)
    assert (seen["type"], cluster_of(seen)) == ("ADDED", first)
    second = world.workspace()
    while cluster_of(seen) != second:
        seen = next(events)
    assert seen["type"] == "ADDED"
    key = (initializer_label if end == "initializing" else terminator_label)(world.name)[0]
    at(f"/clusters/{second}").patch(f"{CLUSTERS}/cluster", {"metadata": {"labels": {key: None}}})
    while (seen["type"], cluster_of(seen)) != ("DELETED", second):
        seen = next(events)
    events.close()


def cluster_of(event: dict[str, Any]) -> str:
    found: str = event["object"]["metadata"]["annotations"]["kcp.io/cluster"]
    return found


@pytest.mark.parametrize("end", ENDS)
def test_content_as_the_creator(at: At, end: str) -> None:
    """Without permissions in the type, a controller acts as whoever made the workspace."""
    world = World(at, end)
    workspace = world.workspace()
    view = world.view(workspace)
    grant(at(f"/clusters/{workspace}"), "carol", "*", "*", "*")
    assert view.post(SPACES, {"metadata": {"name": "made"}}).status == 201
    # Headers do not make it somebody else.
    spoofed = {"Impersonate-User": "root", "Impersonate-Group": "system:masters"}
    review = view.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    assert review.json["status"]["userInfo"]["username"] == "carol"
    assert view.get(MAPS, headers=spoofed).status == 403


@pytest.mark.parametrize("end", ENDS)
def test_content_by_permissions(at: At, end: str) -> None:
    rules = [{"verbs": ["list", "create"], "apiGroups": [""], "resources": ["namespaces"]}]
    world = World(at, end, rules)
    workspace = world.workspace()
    view = world.view(workspace)
    assert view.post(SPACES, {"metadata": {"name": "made"}}).status == 201
    assert view.get(SPACES).status == 200
    refused = view.delete(f"{SPACES}/made")
    assert (refused.status, refused.body.decode()) == (
        403,
        (
            f'{world.role} "{world.name}" denied by {world.role}Permissions: '
            "no rule allows delete on core/namespaces (made) in namespace made\n"
        ),
    )
    refused = view.get(f"{RBAC}/clusterroles")
    assert refused.status == 403
    if end == "initializing":
        # What is not a resource must be permitted as well.
        assert view.get("/version").status == 403


@pytest.mark.parametrize("end", ENDS)
def test_content_only_while_it_waits(at: At, end: str) -> None:
    world, other = World(at, end), World(at, end)
    workspace = other.workspace()
    refused = world.view(workspace).get(MAPS)
    assert (refused.status, refused.body.decode()) == (
        403,
        f'{world.role} "{world.name}" cannot access this workspace\n',
    )
    assert world.view("root").get(MAPS).status == 403


@pytest.mark.parametrize("end", ENDS)
def test_a_type_that_is_gone(at: At, end: str) -> None:
    world = World(at, end)
    workspace = world.workspace()
    assert at("/clusters/root").delete(f"{TYPES}/{world.type}").status == 200
    reply = eventually(lambda: _unavailable(world.view(workspace).get(MAPS)))
    assert b"WorkspaceType not found" in reply.body


def _unavailable(reply: Any) -> Any:
    return reply if reply.status == 503 else None


def test_discovery(at: At) -> None:
    for end, verbs in (("initializing", None), ("terminating", ["get"])):
        world = World(at, end)
        everywhere = world.view("*").get("/apis/core.kcp.io/v1alpha1").json["resources"]
        assert [(r["name"], r["verbs"]) for r in everywhere] == [
            ("logicalclusters", ["get", "list", "watch"]),
            ("logicalclusters/status", None),
        ]
        assert world.view("*").get("/api").json["versions"] == ["v1"]
        assert world.view("*").get("/api/v1").status == 404
        if verbs:
            one = world.view(world.workspace()).get("/apis/core.kcp.io/v1alpha1").json
            assert [(r["name"], r["verbs"]) for r in one["resources"]] == [
                ("logicalclusters", verbs),
                ("logicalclusters/status", ["get", "patch", "update"]),
            ]
