"""Explanations of decisions: what a user learns about their own rights, and about others'."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pykcp.testing.client import Reply, TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

GROUP = "/apis/access.pykcp.dev/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
At = Callable[..., TestClient]
_numbers = itertools.count(1)


@pytest.fixture
def place(shard: ServerProcess) -> TestClient:
    """A logical cluster that alice may enter."""
    client = make_cluster(shard, f"access{next(_numbers)}")
    grant(client, "alice-in", "system:kcp:workspace:access", "alice")
    return client


def name_of(client: TestClient) -> str:
    return client.prefix.rpartition("/")[2]


def grant(client: TestClient, name: str, role: str, user: str, namespace: str = "") -> None:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    path = (
        f"{RBAC}/namespaces/{namespace}/rolebindings"
        if namespace
        else f"{RBAC}/clusterrolebindings"
    )
    group = "rbac.authorization.k8s.io"
    body = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    made = client.post(path, body)
    assert made.status == 201, made


def role(client: TestClient, name: str, *rules: Object) -> None:
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    made = client.post(f"{RBAC}/clusterroles", {**body, "metadata": {"name": name}, "rules": rules})
    assert made.status == 201, made


def ask(at: At, where: str, caller: str, plural: str = "accessexplanations", **spec: Any) -> Reply:
    kind = "AccessExplanation" if plural == "accessexplanations" else "ResourceAccessReview"
    body = {"apiVersion": "access.pykcp.dev/v1alpha1", "kind": kind, "spec": spec}
    return at(f"/services/access/clusters/{where}", caller).post(f"{GROUP}/{plural}", body)


def why(at: At, where: str, caller: str, **spec: Any) -> Object:
    found = ask(at, where, caller, **spec)
    assert found.status == 201, found
    status: Object = found.json["status"]
    return status


def resource(verb: str, resource: str, **more: str) -> Object:
    return {"verb": verb, "resource": resource, **more}


def test_the_rule_that_allows_is_named(at: At, place: TestClient) -> None:
    role(
        place, "reader", {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}
    )
    grant(place, "alice-reads", "reader", "alice")
    status = why(at, name_of(place), "alice", resourceAttributes=resource("list", "configmaps"))
    assert status["allowed"] is True
    assert status["grants"] == [
        {
            "binding": {"kind": "ClusterRoleBinding", "name": "alice-reads"},
            "role": {"kind": "ClusterRole", "name": "reader"},
            "subject": {"kind": "User", "name": "alice"},
            "rule": {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
            "scope": "Workspace",
        }
    ]
    assert '"alice-reads" of ClusterRole "reader" to User "alice"' in status["message"]


NEAR = (
    ("verb", {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}),
    ("apiGroup", {"verbs": ["delete"], "apiGroups": ["apps"], "resources": ["configmaps"]}),
    ("resource", {"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps/status"]}),
    (
        "resourceName",
        {
            "verbs": ["delete"],
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["b"],
        },
    ),
)


@pytest.mark.parametrize(("lacks", "rule"), NEAR, ids=[lacks for lacks, _ in NEAR])
def test_a_rule_that_nearly_allows_is_named(
    at: At, place: TestClient, lacks: str, rule: Object
) -> None:
    role(place, "near", rule)
    grant(place, "alice-near", "near", "alice")
    question = resource("delete", "configmaps", name="a", namespace="default")
    status = why(at, name_of(place), "alice", resourceAttributes=question)
    assert status["allowed"] is False
    assert [(n["role"]["name"], n["lacks"]) for n in status["nearMisses"]] == [("near", lacks)]


def test_a_grant_in_another_namespace_is_named(at: At, place: TestClient) -> None:
    made = place.post("/api/v1/namespaces", {"metadata": {"name": "web"}})
    assert made.status == 201, made
    grant(place, "alice-web", "edit", "alice", namespace="web")
    question = resource("create", "configmaps", namespace="default")
    status = why(at, name_of(place), "alice", resourceAttributes=question)
    assert [n["lacks"] for n in status["nearMisses"]] == ["namespace"]
    assert status["nearMisses"][0]["binding"] == {
        "kind": "RoleBinding",
        "name": "alice-web",
        "namespace": "web",
    }


def test_the_missing_grant_helps(at: At, place: TestClient) -> None:
    """The rule of the answer is granted, and is all that was missing."""
    question = resource("create", "secrets", namespace="default")
    missing = why(at, name_of(place), "alice", resourceAttributes=question)["missing"]
    assert missing["commands"] == [
        "kubectl create role alice-create-secrets --verb=create --resource=secrets --namespace=default",
        (
            "kubectl create rolebinding alice-create-secrets --role=alice-create-secrets --user=alice"
            " --namespace=default"
        ),
    ]
    assert "roles" not in missing, "alice may not list roles"
    role(place, "needed", missing["rule"])
    grant(place, "alice-needed", "needed", "alice", namespace="default")
    assert why(at, name_of(place), "alice", resourceAttributes=question)["allowed"] is True


def test_roles_that_would_help_are_shown_to_users_who_may_list_them(
    at: At, place: TestClient
) -> None:
    role(place, "lister", {"verbs": ["list"], "apiGroups": ["*"], "resources": ["clusterroles"]})
    grant(place, "alice-lists", "lister", "alice")
    question = resource("create", "configmaps", namespace="default")
    missing = why(at, name_of(place), "alice", resourceAttributes=question)["missing"]
    assert {"edit", "admin", "cluster-admin"} <= set(missing["roles"])


def test_no_access_and_no_workspace_look_alike(at: At, place: TestClient) -> None:
    question = resource("list", "configmaps")
    answers = []
    for where in (name_of(place), "root:nothing:here", "0123456789abcdef"):
        found = ask(at, where, "bob", resourceAttributes=question)
        answers.append((found.status, found.body))
    assert answers[0] == answers[1] == answers[2]
    status = why(at, name_of(place), "bob", resourceAttributes=question)
    assert status["allowed"] is False
    assert status["missing"]["commands"] == [
        (
            "kubectl create clusterrolebinding bob-access --clusterrole=system:kcp:workspace:access"
            " --user=bob"
        )
    ]


def test_other_users_may_be_asked_about_with_permission(at: At, place: TestClient) -> None:
    question = resource("list", "configmaps")
    refused = ask(at, name_of(place), "alice", user="bob", resourceAttributes=question)
    assert refused.status == 403, refused
    assert 'cannot create resource "subjectaccessreviews"' in refused.json["message"]
    status = why(at, name_of(place), "", user="bob", resourceAttributes=question)
    assert status["allowed"] is False
    assert status["stages"][-1] == {
        "name": "WorkspaceAccess",
        "result": "Blocked",
        "message": "no verb=access permission on /",
    }


def test_required_groups_are_named_to_administrators_only(at: At, place: TestClient) -> None:
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    note = {"authorization.kcp.io/required-groups": "staff"}
    assert place.patch(path, {"metadata": {"annotations": note}}).status == 200
    question = resource("list", "configmaps")
    own = ask(at, name_of(place), "alice", resourceAttributes=question)
    assert own.status == 201, own
    assert b"staff" not in own.body
    told = why(at, name_of(place), "", user="alice", resourceAttributes=question)
    assert "user is not a member of required groups: staff" in told["message"]


def test_who_can(at: At, place: TestClient) -> None:
    grant(place, "bob-edits", "edit", "bob", namespace="default")
    grant(place, "carol-views", "view", "carol")
    question = resource("create", "configmaps", namespace="default")
    where, plural = name_of(place), "resourceaccessreviews"
    assert ask(at, where, "alice", plural, resourceAttributes=question).status == 403
    found = ask(at, where, "", plural, resourceAttributes=question)
    assert found.status == 201, found
    status = found.json["status"]
    assert "bob" in status["users"]
    assert "carol" not in status["users"]
    assert "system:masters" in status["groups"] or "system:kcp:admin" in status["groups"]
    assert status["incomplete"] is False
    role(place, "auditor", {"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]})
    grant(place, "alice-audits", "auditor", "alice")
    status = ask(at, where, "alice", plural, resourceAttributes=question).json["status"]
    assert (status["users"], status["groups"], status["incomplete"]) == (["bob"], [], True)


def test_paths_and_masters(at: At, place: TestClient) -> None:
    where = name_of(place)
    open_path = {"verb": "get", "path": "/healthz"}
    assert (
        why(at, where, "alice", nonResourceAttributes=open_path)["authorizer"] == "AlwaysAllowPaths"
    )
    closed = why(at, where, "alice", nonResourceAttributes={"verb": "get", "path": "/secret"})
    assert closed["missing"]["commands"][0].endswith("--verb=get --non-resource-url=/secret")
    status = why(at, where, "", resourceAttributes=resource("delete", "secrets"))
    assert (status["allowed"], status["authorizer"]) == (True, "AlwaysAllowGroups")


BAD = (
    ({"spec": {}}, 422),
    ({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}, 422),
    ({"spec": {"resourceAttributes": "x"}}, 400),
    ({"kind": "Other", "spec": {}}, 400),
    ([], 400),
)


@pytest.mark.parametrize(("body", "status"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_questions(at: At, place: TestClient, body: Any, status: int) -> None:
    if isinstance(body, dict):
        body = {"apiVersion": "access.pykcp.dev/v1alpha1", "kind": "AccessExplanation", **body}
    client = at(f"/services/access/clusters/{name_of(place)}", "alice")
    found = client.post(f"{GROUP}/accessexplanations", body)
    assert found.status == status, found
    assert found.json["kind"] == "Status"


def test_discovery_shows_the_kinds(at: At, place: TestClient) -> None:
    found = at(f"/services/access/clusters/{name_of(place)}", "alice").get(GROUP)
    names = {r["name"]: r["verbs"] for r in found.json["resources"]}
    assert names == {"accessexplanations": ["create"], "resourceaccessreviews": ["create"]}
    anonymous = at(f"/services/access/clusters/{name_of(place)}")
    anonymous = anonymous.with_token("")
    assert anonymous.get(GROUP).status in (401, 403)
