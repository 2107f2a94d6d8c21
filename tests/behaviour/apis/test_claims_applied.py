"""Claims take effect on what is there: labels come and go with what a binding accepts."""

from __future__ import annotations

from pykcp.machinery.kcp.hashes import claim_label_key
from pykcp.testing.apis import BINDINGS, EXPORTS, MAPS, accepted
from pykcp.testing.binding import bind, condition, is_bound, offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import name_of
from pykcp.types import Object

ASKED: list[Object] = [{"group": "", "resource": "configmaps", "verbs": ["*"]}]


def _is_labelled(client: TestClient, provider: TestClient, name: str) -> bool:
    labels = client.get(f"{MAPS}/{name}").json["metadata"].get("labels") or {}
    return claim_label_key(name_of(provider), "cowboys") in labels


def _applied(client: TestClient) -> list[str]:
    status = client.get(f"{BINDINGS}/cowboys").json.get("status") or {}
    return [c["resource"] for c in status.get("appliedPermissionClaims") or ()]


def _accept(client: TestClient, *claims: Object) -> None:
    assert (
        client.patch(f"{BINDINGS}/cowboys", {"spec": {"permissionClaims": list(claims)}}).status
        == 200
    )


def test_what_is_there_is_labelled(cluster: TestClient, provider: TestClient) -> None:
    offer(provider, permissionClaims=ASKED)
    assert cluster.post(MAPS, {"metadata": {"name": "old"}}).status == 201
    bind(cluster, provider, claims=[accepted("configmaps")])
    eventually(lambda: is_bound(cluster) and _applied(cluster) == ["configmaps"])
    assert _is_labelled(cluster, provider, "old")
    assert condition(cluster, "cowboys", "PermissionClaimsApplied")["status"] == "True"
    found = cluster.get(f"{BINDINGS}/cowboys").json["status"]["exportPermissionClaims"]
    assert [claim["resource"] for claim in found] == ["configmaps"]
    _accept(cluster, accepted("configmaps", state="Rejected"))
    eventually(lambda: not _applied(cluster))
    assert not _is_labelled(cluster, provider, "old")


def test_labels_go_with_the_binding(cluster: TestClient, provider: TestClient) -> None:
    """Nobody may see what is no longer shown to them."""
    offer(provider, permissionClaims=ASKED)
    bind(cluster, provider, claims=[accepted("configmaps")])
    assert cluster.post(MAPS, {"metadata": {"name": "mine"}}).status == 201
    eventually(lambda: _applied(cluster) == ["configmaps"])
    assert _is_labelled(cluster, provider, "mine")
    assert cluster.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: not _is_labelled(cluster, provider, "mine"))


def test_claims_that_nobody_makes(cluster: TestClient, provider: TestClient) -> None:
    offer(provider, permissionClaims=ASKED)
    bind(cluster, provider, claims=[accepted("configmaps"), accepted("secrets")])
    eventually(lambda: is_bound(cluster))
    found = condition(cluster, "cowboys", "PermissionClaimsValid")
    assert (found["status"], found["severity"], found["reason"]) == (
        "False",
        "Error",
        "InvalidPermissionClaims",
    )
    assert found["message"] == (
        "1 unexpected and/or invalid permission claims (showing first 1): "
        'unexpected/invalid claim for secrets. (identity "")'
    )
    more = [*ASKED, {"group": "", "resource": "secrets", "verbs": ["get"]}]
    assert provider.patch(f"{EXPORTS}/cowboys", {"spec": {"permissionClaims": more}}).status == 200
    eventually(lambda: _applied(cluster) == ["configmaps", "secrets"])
    assert condition(cluster, "cowboys", "PermissionClaimsValid")["status"] == "True"


def test_verbs_that_differ(cluster: TestClient, provider: TestClient) -> None:
    offer(provider, permissionClaims=[{**ASKED[0], "verbs": ["get", "list"]}])
    bind(cluster, provider, claims=[accepted("configmaps", verbs=["get"])])
    eventually(lambda: condition(cluster, "cowboys", "PermissionClaimsValid"))
    found = condition(cluster, "cowboys", "PermissionClaimsValid")
    assert (found["severity"], found["reason"], found["message"]) == (
        "Warning",
        "PermissionClaimsMismatch",
        "1 permission claim(s) have mismatched verbs or selectors (showing first 1): configmaps. (verbs: accepted [get], exported [get list])",
    )


def test_a_claim_on_what_another_export_brings(cluster: TestClient, provider: TestClient) -> None:
    """Nobody here binds it, and still the claim is in order."""
    other = offer(provider, "other")
    claimed = {
        "group": "wild.west",
        "resource": "cowboys",
        "identityHash": other["status"]["identityHash"],
        "verbs": ["*"],
    }
    unknown = {**claimed, "identityHash": "nobody"}
    offer(provider, permissionClaims=[claimed, {**ASKED[0]}])
    more = {"identityHash": claimed["identityHash"]}
    bind(cluster, provider, claims=[accepted("cowboys", "wild.west", **more)])
    eventually(lambda: _applied(cluster) == ["cowboys"])
    change = {"spec": {"permissionClaims": [unknown]}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    _accept(cluster, accepted("cowboys", "wild.west", identityHash="nobody"))
    eventually(
        lambda: condition(cluster, "cowboys", "PermissionClaimsApplied").get("status") == "False"
    )
    assert condition(cluster, "cowboys", "PermissionClaimsApplied")["message"] == (
        "Permission claims have not been fully applied: error getting informer for "
        'group="wild.west", resource="cowboys": unable to find informer for cowboys.wild.west'
    )


def test_a_claim_that_comes_back_with_another_selector(
    cluster: TestClient, provider: TestClient
) -> None:
    """It may not change, but it may go and come."""
    offer(provider, permissionClaims=ASKED)
    bind(cluster, provider, claims=[accepted("configmaps")])
    eventually(lambda: _applied(cluster) == ["configmaps"])
    assert cluster.post(MAPS, {"metadata": {"name": "plain"}}).status == 201
    assert cluster.post(MAPS, {"metadata": {"name": "red", "labels": {"is": "red"}}}).status == 201
    _accept(cluster)
    _accept(cluster, accepted("configmaps", selector={"matchLabels": {"is": "red"}}))

    def selector() -> Object:
        status = cluster.get(f"{BINDINGS}/cowboys").json["status"]
        found: Object = (status.get("appliedPermissionClaims") or [{}])[0].get("selector") or {}
        return found

    eventually(lambda: selector() == {"matchLabels": {"is": "red"}})
    eventually(lambda: not _is_labelled(cluster, provider, "plain"))
    assert _is_labelled(cluster, provider, "red")
