"""Secrets that hold a service account's token."""

from __future__ import annotations

import base64
import json
from typing import Any

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.types import Object

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


def _account(client: TestClient, name: str, **more: Any) -> Object:
    made = client.post(ACCOUNTS, {"metadata": {"name": name}, **more})
    assert made.status == 201, made
    found: Object = made.json
    return found


def _secret(client: TestClient, name: str, account: str, **annotations: str) -> str:
    body = {
        "metadata": {"name": name, "annotations": {NAME: account, **annotations}},
        "type": "kubernetes.io/service-account-token",
    }
    made = client.post(SECRETS, body)
    assert made.status == 201, made
    return f"{SECRETS}/{name}"


def _filled(client: TestClient, path: str) -> Object | None:
    found: Object = client.get(path).json
    return found if (found.get("data") or {}).get("token") else None


def _claims(secret: Object) -> Object:
    token = base64.b64decode(secret["data"]["token"]).decode()
    part = token.split(".")[1]
    claims: Object = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def test_a_secret_is_filled(cluster: TestClient) -> None:
    account = _account(cluster, "robot")
    path = _secret(cluster, "token", "robot")
    secret = eventually(lambda: _filled(cluster, path))
    assert base64.b64decode(secret["data"]["namespace"]) == b"default"
    assert b"BEGIN CERTIFICATE" in base64.b64decode(secret["data"]["ca.crt"])
    assert secret["metadata"]["annotations"][UID] == account["metadata"]["uid"]
    claims = _claims(secret)
    prefix = "kubernetes.io/serviceaccount/"
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims[f"{prefix}secret.name"] == "token"
    assert claims[f"{prefix}service-account.uid"] == account["metadata"]["uid"]
    assert claims[f"{prefix}clusterName"] == cluster.prefix.rpartition("/")[2]


def test_what_is_taken_out_comes_back(cluster: TestClient) -> None:
    _account(cluster, "robot")
    path = _secret(cluster, "token", "robot")
    eventually(lambda: _filled(cluster, path))
    cluster.patch(path, {"data": {"token": None, "ca.crt": "eA=="}}, MERGE)
    secret = eventually(lambda: _filled(cluster, path))
    assert b"BEGIN CERTIFICATE" in base64.b64decode(secret["data"]["ca.crt"])


def test_it_goes_with_its_account(cluster: TestClient) -> None:
    _account(cluster, "robot")
    _account(cluster, "other")
    path, kept = _secret(cluster, "token", "robot"), _secret(cluster, "kept", "other")
    eventually(lambda: _filled(cluster, path) and _filled(cluster, kept))
    cluster.delete(f"{ACCOUNTS}/robot")
    eventually(lambda: cluster.get(path).status == 404)
    assert cluster.get(kept).status == 200


def test_without_its_account_it_is_not_kept(cluster: TestClient) -> None:
    """None of that name, or another one than the uid says."""
    account = _account(cluster, "robot")
    nobody = _secret(cluster, "nobody", "missing")
    wrong = _secret(cluster, "wrong", "robot", **{UID: "33333333-3333-4333-8333-333333333333"})
    right = _secret(cluster, "right", "robot", **{UID: account["metadata"]["uid"]})
    eventually(lambda: cluster.get(nobody).status == 404)
    eventually(lambda: cluster.get(wrong).status == 404)
    eventually(lambda: _filled(cluster, right))


def test_a_deleted_secret_is_no_longer_named_by_its_account(cluster: TestClient) -> None:
    _account(cluster, "robot", secrets=[{"name": "token"}, {"name": "else"}])
    path = _secret(cluster, "token", "robot")
    eventually(lambda: _filled(cluster, path))
    cluster.delete(path)
    left = [{"name": "else"}]
    eventually(lambda: cluster.get(f"{ACCOUNTS}/robot").json.get("secrets") == left)
