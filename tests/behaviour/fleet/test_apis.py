"""APIs between workspaces on different shards: bindings, endpoint slices, claims, admission."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pykcp.testing.apis import (
    BINDINGS,
    COWBOYS,
    EXPORTS,
    MAPS,
    RESOURCE,
    SCHEMAS,
    SLICES,
    accepted,
    binding,
    cowboy,
    export,
    schema,
)
from pykcp.testing.binding import is_bound
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import inside, make_workspace

_numbers = itertools.count(1)
_PLACES = [("root", "shard-1"), ("shard-1", "root"), ("shard-1", "shard-1")]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def workspace(root: TestClient, shard: str, role: str) -> TestClient:
    name = f"{role}{next(_numbers)}"
    selector = {"location": {"selector": {"matchLabels": {"name": shard}}}}
    make_workspace(root, name, type={"name": "universal", "path": "root"}, **selector)
    return inside(root, name)


def bind_cowboys(provider: TestClient, consumer: TestClient, **spec: Any) -> None:
    """Export cowboys and bind them elsewhere, once the other shard knows the export."""
    assert provider.post(SCHEMAS, schema()).status == 201
    assert provider.post(EXPORTS, export("cowboys", resources=[RESOURCE], **spec)).status == 201
    path = provider.prefix.rpartition("/")[2]
    wanted = binding("cowboys", "cowboys", path)
    eventually(lambda: consumer.post(BINDINGS, wanted).status == 201)
    eventually(lambda: is_bound(consumer))


def urls(provider: TestClient) -> set[str]:
    status = provider.get(f"{SLICES}/cowboys").json.get("status") or {}
    return {one["url"].partition("/services/")[0] for one in status.get("endpoints") or ()}


def address(shards: Fleet, shard: str) -> str:
    return f"https://127.0.0.1:{shards[shard].member.port}"


@pytest.mark.parametrize(("home", "away"), _PLACES)
def test_an_export_is_bound_on_another_shard(
    shared_fleet: Fleet, root: TestClient, home: str, away: str
) -> None:
    provider, consumer = workspace(root, home, "provider"), workspace(root, away, "consumer")
    bind_cowboys(provider, consumer)
    assert consumer.post(COWBOYS, cowboy("jesse")).status == 201
    expected = {address(shared_fleet, away)}
    eventually(lambda: urls(provider) == expected)
    made = provider.get(f"{EXPORTS}/cowboys").json
    place = made["metadata"]["annotations"]["kcp.io/cluster"]
    view = f"/services/apiexport/{place}/cowboys/clusters/*/apis/wild.west/v1/cowboys"
    listed = shared_fleet.client(away).get(view)
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["jesse"]
    identity = made["status"]["identityHash"]
    everywhere = f"/apis/wild.west/v1/cowboys:{identity}"
    assert len(shared_fleet.client(away, "*").get(everywhere).json["items"]) == 1
    # The URL goes with the last binding.
    assert consumer.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: urls(provider) == set())


def test_the_slice_has_a_url_for_each_shard_with_consumers(
    shared_fleet: Fleet, root: TestClient
) -> None:
    provider = workspace(root, "shard-1", "provider")
    near, far = workspace(root, "shard-1", "near"), workspace(root, "root", "far")
    bind_cowboys(provider, near)
    eventually(lambda: urls(provider) == {address(shared_fleet, "shard-1")})
    path = provider.prefix.rpartition("/")[2]
    assert far.post(BINDINGS, binding("cowboys", "cowboys", path)).status == 201
    both = {address(shared_fleet, shard) for shard in ("root", "shard-1")}
    eventually(lambda: urls(provider) == both)


def test_claims_of_an_export_on_another_shard(shared_fleet: Fleet, root: TestClient) -> None:
    provider, consumer = workspace(root, "root", "provider"), workspace(root, "shard-1", "consumer")
    claim = {"group": "", "resource": "configmaps", "verbs": ["*"]}
    bind_cowboys(provider, consumer, permissionClaims=[claim])
    accept = {"spec": {"permissionClaims": [accepted("configmaps")]}}
    assert consumer.patch(f"{BINDINGS}/cowboys", accept).status == 200
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "claimed"}}
    assert consumer.post(MAPS, config).status == 201
    place = provider.get(f"{EXPORTS}/cowboys").json["metadata"]["annotations"]["kcp.io/cluster"]
    view = f"/services/apiexport/{place}/cowboys/clusters/*/api/v1/configmaps"

    def names() -> set[str]:
        found = shared_fleet.client("shard-1").get(view).json.get("items") or ()
        return {item["metadata"]["name"] for item in found}

    eventually(lambda: "claimed" in names())


def test_policies_of_a_provider_on_another_shard(root: TestClient) -> None:
    provider, consumer = workspace(root, "root", "provider"), workspace(root, "shard-1", "consumer")
    bind_cowboys(provider, consumer)
    rules = [
        {
            "apiGroups": ["wild.west"],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": ["cowboys"],
        }
    ]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-outlaws"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [
                {"expression": "!object.metadata.name.startsWith('outlaw')", "message": "an outlaw"}
            ],
        },
    }
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-outlaws"},
        "spec": {"policyName": "no-outlaws", "validationActions": ["Deny"]},
    }
    assert provider.post(f"{ADMISSION}/validatingadmissionpolicies", policy).status == 201
    assert provider.post(f"{ADMISSION}/validatingadmissionpolicybindings", bound).status == 201

    def is_refused() -> bool:
        reply = consumer.post(f"{COWBOYS}?dryRun=All", cowboy("outlaw"))
        return reply.status == 422 and "an outlaw" in reply.json["message"]

    eventually(is_refused)
    assert consumer.post(COWBOYS, cowboy("sheriff")).status == 201


def policy_with_params(**reference: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy, and its binding to ConfigMaps as parameters."""
    rule = {
        "apiGroups": ["wild.west"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["cowboys"],
    }
    validation = {
        "expression": "object.metadata.name != params.data.outlaw",
        "messageExpression": "'wanted: ' + params.data.outlaw",
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "wanted"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [validation],
        },
    }
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "wanted"},
        "spec": {
            "policyName": "wanted",
            "validationActions": ["Deny"],
            "paramRef": {
                "namespace": "default",
                "parameterNotFoundAction": "Deny",
                **reference,
            },
        },
    }
    return policy, bound


@pytest.mark.parametrize(
    "reference", [{"name": "poster"}, {"selector": {"matchLabels": {"kind": "poster"}}}]
)
def test_policies_with_parameters_on_another_shard(
    root: TestClient, reference: dict[str, Any]
) -> None:
    provider, consumer = workspace(root, "shard-1", "provider"), workspace(root, "root", "consumer")
    bind_cowboys(provider, consumer)
    poster = {
        "metadata": {"name": "poster", "labels": {"kind": "poster"}},
        "data": {"outlaw": "jesse"},
    }
    policy, bound = policy_with_params(**reference)
    assert provider.post(f"{ADMISSION}/validatingadmissionpolicies", policy).status == 201
    assert provider.post(f"{ADMISSION}/validatingadmissionpolicybindings", bound).status == 201

    def answer(name: str) -> str:
        reply = consumer.post(f"{COWBOYS}?dryRun=All", cowboy(name))
        return str(reply.json.get("message") or reply.status)

    eventually(lambda: "no params found for policy binding" in answer("billy"))
    assert provider.post(MAPS, poster).status == 201
    eventually(lambda: "wanted: jesse" in answer("jesse"))
    assert answer("billy") == "201"
    changed = provider.patch(f"{MAPS}/poster", {"data": {"outlaw": "billy"}})
    assert changed.status == 200
    eventually(lambda: "wanted: billy" in answer("billy"))
    assert answer("jesse") == "201"


def test_service_accounts_are_known_on_other_shards(root: TestClient) -> None:
    near, far = workspace(root, "root", "near"), workspace(root, "shard-1", "far")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = far.post(path, request).json["status"]["token"]
    cluster = far.get("/api/v1/namespaces/default").json["metadata"]["annotations"][
        "kcp.io/cluster"
    ]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    rights = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    group = "rbac.authorization.k8s.io"
    user = f"system:kcp:serviceaccount:{cluster}:default:default"
    admitted = {
        "metadata": {"name": "far"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    assert near.post(rights, admitted).status == 201
    account = near.with_token(token)
    reply = eventually(lambda: (r := account.post(reviews, review)).status == 201 and r)
    name = reply.json["status"]["userInfo"]["username"]
    assert name == "system:serviceaccount:default:default"
    assert near.with_token(f"{token[:-4]}AAAA").post(reviews, review).status == 401
