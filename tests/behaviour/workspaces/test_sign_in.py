"""Issuers of a workspace's own: their tokens count in workspaces of a type, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.issuer import AUDIENCE, TestIssuer
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
RBAC = "rbac.authorization.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture(scope="module")
def issuer() -> Iterator[TestIssuer]:
    made = TestIssuer("ES256")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shard(issuer: TestIssuer) -> Iterator[ServerProcess]:
    """A server whose type `root:corporate` has an issuer."""
    with server("--feature-gates=WorkspaceAuthentication=true") as process:
        root = process.client(cluster="root")
        write_configuration(root, issuer, "corp:")
        given = {
            **head("WorkspaceType", "corporate"),
            "spec": {"authenticationConfigurations": [{"name": "corp"}]},
        }
        assert root.post(f"{TENANCY}/workspacetypes", given).status == 201
        for name, kind in (
            ("offices", "corporate"),
            ("annex", "corporate"),
            ("other", "universal"),
        ):
            open_cluster(process, name, kind)
        yield process


def head(kind: str, name: str) -> Object:
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": kind, "metadata": {"name": name}}


def write_configuration(root: TestClient, issuer: TestIssuer, prefix: str) -> None:
    entry = {
        "issuer": {
            "url": issuer.url,
            "certificateAuthority": issuer.ca,
            "audiences": [AUDIENCE],
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {
            "username": {"claim": "sub", "prefix": prefix},
            "groups": {"claim": "groups", "prefix": ""},
        },
    }
    path = f"{TENANCY}/workspaceauthenticationconfigurations"
    body = {**head("WorkspaceAuthenticationConfiguration", "corp"), "spec": {"jwt": [entry]}}
    live = root.get(f"{path}/corp")
    if live.status == 200:
        body["metadata"]["resourceVersion"] = live.json["metadata"]["resourceVersion"]
        assert root.put(f"{path}/corp", body).status == 200
    else:
        made = root.post(path, body)
        assert made.status == 201, made


def open_cluster(shard: ServerProcess, name: str, kind: str) -> None:
    """A ready logical cluster of a type, in which the group `devs` may do everything."""
    inside = make_cluster(shard, name)
    annotations = {"internal.tenancy.kcp.io/type": f"root:{kind}"}
    assert inside.patch(LOGICAL_CLUSTER, {"metadata": {"annotations": annotations}}).status == 200
    inside.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    made = inside.post(
        f"/apis/{RBAC}/v1/clusterrolebindings",
        {
            "metadata": {"name": "devs"},
            "subjects": [{"kind": "Group", "name": "devs", "apiGroup": RBAC}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC},
        },
    )
    assert made.status == 201


def who(client: TestClient) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = client.post(WHO, review)
    assert reply.status == 201, reply
    return reply.json["status"]["userInfo"]


def test_a_token_counts_where_the_type_says(shard: ServerProcess, issuer: TestIssuer) -> None:
    token = issuer.token(groups=["devs", "system:masters"])
    inside = shard.client(cluster="offices").with_token(token)
    assert inside.get(MAPS).status == 200
    assert who(inside) == {
        "username": "corp:alice",
        "groups": ["devs", "system:authenticated"],
        "extra": {
            "authentication.kcp.io/scopes": ["cluster:offices"],
            "authentication.kcp.io/cluster-name": ["offices"],
        },
    }
    assert shard.client(cluster="annex").with_token(token).get(MAPS).status == 200
    for cluster in ("other", "root", "system:admin", "nosuch"):
        assert shard.client(cluster=cluster).with_token(token).get(MAPS).status == 401


def test_one_connection_may_visit_several_workspaces(
    shard: ServerProcess, issuer: TestIssuer
) -> None:
    """Who somebody is somewhere is not remembered for elsewhere."""
    client = shard.client(cluster="offices").with_token(issuer.token(groups=["devs"]))
    for prefix, status in (
        ("/clusters/offices", 200),
        ("/clusters/other", 401),
        ("/clusters/annex", 200),
        ("/clusters/root", 401),
        ("/clusters/offices", 200),
    ):
        client.prefix = prefix
        assert client.get(MAPS).status == status, prefix


@pytest.mark.parametrize(
    "claims", [{"sub": "system:admin"}, {"exp": 1}, {"aud": "others"}, {"iss": "https://x.example"}]
)
def test_tokens_that_are_not_taken(
    shard: ServerProcess, issuer: TestIssuer, claims: dict[str, Any]
) -> None:
    root = shard.client(cluster="root")
    write_configuration(root, issuer, "" if "sub" in claims else "corp:")
    token = issuer.token(groups=["devs"], **claims)
    try:
        assert shard.client(cluster="offices").with_token(token).get(MAPS).status == 401
    finally:
        write_configuration(root, issuer, "corp:")


def test_changes_count_with_the_next_request(shard: ServerProcess, issuer: TestIssuer) -> None:
    root, client = shard.client(cluster="root"), shard.client(cluster="offices")
    inside = client.with_token(issuer.token(groups=["devs"]))
    assert who(inside)["username"] == "corp:alice"
    write_configuration(root, issuer, "renamed:")
    assert who(inside)["username"] == "renamed:alice"
    write_configuration(root, issuer, "corp:")


def test_token_reviews_know_them(shard: ServerProcess, issuer: TestIssuer) -> None:
    """Whoever asks in the workspace learns whose token it is; elsewhere nobody knows."""

    def review(cluster: str) -> Any:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": issuer.token(groups=["devs"])},
        }
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        return shard.client(cluster=cluster).post(path, body).json["status"]

    found = review("offices")
    assert found["authenticated"] is True
    assert found["user"]["username"] == "corp:alice"
    assert found["user"]["groups"] == ["devs", "system:authenticated"]
    assert "authenticated" not in review("other")
