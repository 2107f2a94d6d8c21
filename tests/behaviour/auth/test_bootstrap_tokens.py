"""`--enable-bootstrap-token-auth`: whose secrets count where."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

SECRETS = "/api/v1/namespaces/kube-system/secrets"


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server("--enable-bootstrap-token-auth") as process:
        yield process


@pytest.fixture
def who(shard: ServerProcess, asking: Callable[[ServerProcess], Any]) -> Any:
    return asking(shard)


def add_token(client: TestClient, token: str, **data: str) -> None:
    token_id, _, secret = token.partition(".")
    values = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    client.post("/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    made = client.post(
        SECRETS,
        {
            "metadata": {"name": f"bootstrap-token-{token_id}"},
            "type": "bootstrap.kubernetes.io/token",
            "data": {k: base64.b64encode(v.encode()).decode() for k, v in values.items()},
        },
    )
    assert made.status == 201, made


def test_a_token_of_system_admin_is_good_everywhere(who: Any, shard: ServerProcess) -> None:
    token = "aaaaaa.0123456789abcdef"
    assert who.status(token) == 401
    admin = shard.client(cluster="system:admin")
    add_token(admin, token, auth_extra_groups="system:bootstrappers:workers")
    user = {
        "username": "system:bootstrap:aaaaaa",
        "groups": [
            "system:bootstrappers",
            "system:bootstrappers:workers",
            "system:authenticated",
        ],
    }
    who.make_ready("elsewhere")
    assert who.user(token) == user
    assert who.user(token, "elsewhere") == user
    assert admin.delete(f"{SECRETS}/bootstrap-token-aaaaaa").status == 200
    assert "authenticated" not in who.review(token).json["status"]


def test_a_token_of_a_logical_cluster_is_good_there_only(who: Any, shard: ServerProcess) -> None:
    token = "bbbbbb.0123456789abcdef"
    for name in ("home", "away"):
        who.make_ready(name)
    home = shard.client(cluster="home")
    add_token(home, token)
    user = who.user(token, "home")
    assert user["username"] == "system:bootstrap:bbbbbb"
    assert user["extra"]["authentication.kcp.io/scopes"] == ["cluster:home"]
    assert who.status(token, "home") == 403
    assert who.status(token, "away") == 401
    assert who.status(token, "root") == 401
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    for name, role in (("a", "system:kcp:workspace:access"), ("b", "view")):
        for cluster in ("home", "away"):
            made = shard.client(cluster=cluster).post(
                bindings,
                {
                    "metadata": {"name": f"bootstrap-{name}"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": role,
                    },
                    "subjects": [
                        {
                            "kind": "Group",
                            "name": "system:bootstrappers",
                            "apiGroup": "rbac.authorization.k8s.io",
                        }
                    ],
                },
            )
            assert made.status == 201, made
    path = "/api/v1/namespaces/default/configmaps"
    client = who.client(token, "home")
    assert client.get(path).status == 200
    # the same connection, the same header, another logical cluster
    client.prefix = "/clusters/away"
    assert client.get(path).status == 401
    client.prefix = "/clusters/home"
    assert client.get(path).status == 200


def test_a_tenant_cannot_make_itself_important(who: Any, shard: ServerProcess) -> None:
    who.make_ready("tenant")
    tenant = shard.client(cluster="tenant")
    for token_id, groups in (("cccccc", "system:masters"), ("dddddd", "system:kcp:admin")):
        token = f"{token_id}.0123456789abcdef"
        add_token(tenant, token, auth_extra_groups=groups)
        assert who.status(token, "tenant") == 401


def test_without_the_flag_they_mean_nothing(asking: Callable[[ServerProcess], Any]) -> None:
    with server() as process:
        add_token(process.client(cluster="system:admin"), "eeeeee.0123456789abcdef")
        assert asking(process).status("eeeeee.0123456789abcdef") == 401
