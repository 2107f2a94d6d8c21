"""The maximal permission policy of an export."""

from __future__ import annotations

import pytest

from pykcp.testing.apis import COWBOYS, EXPORTS, bind_cowboys, cowboy, grant, role
from pykcp.testing.client import TestClient
from pykcp.types import Object

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PREFIX = "apis.kcp.io:binding:"


CLAIMS = [
    {"group": f"g{n}.example.org", "resource": "things", "verbs": ["*"], "identityHash": "a" * 64}
    for n in range(3000)
]
"""So many that of the export only the policy is decoded."""


@pytest.mark.parametrize("claims", [[], CLAIMS], ids=["small", "large"])
def test_the_ceiling_of_an_export(
    provider: TestClient, cluster: TestClient, claims: list[Object]
) -> None:
    """Users may do what both sides allow; changes on the provider's side are seen at once."""
    policy: Object = {"local": {}}
    bind_cowboys(provider, cluster, maximalPermissionPolicy=policy, permissionClaims=claims)
    cluster.post(f"{RBAC}/clusterrolebindings", grant("cluster-admin", "alice"))
    alice = cluster.with_token("alice-token")
    assert alice.get(COWBOYS).status == 403
    assert cluster.get(COWBOYS).status == 200  # system:masters are above it
    provider.post(f"{RBAC}/clusterroles", role("readers", "wild.west", "cowboys", "list", "get"))
    provider.post(f"{RBAC}/clusterrolebindings", grant("readers", f"{PREFIX}alice"))
    assert alice.get(COWBOYS).status == 200
    assert alice.post(COWBOYS, cowboy("joe")).status == 403
    open_policy = {"spec": {"maximalPermissionPolicy": None}}
    assert provider.patch(f"{EXPORTS}/cowboys", open_policy).status == 200
    assert alice.post(COWBOYS, cowboy("joe")).status == 201
    closed: Object = {"spec": {"maximalPermissionPolicy": {"local": {}}}}
    assert provider.patch(f"{EXPORTS}/cowboys", closed).status == 200
    assert alice.post(COWBOYS, cowboy("jim")).status == 403
