"""What a provider says of its resources holds wherever they are bound."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pykcp.testing.apis import COWBOYS, bind_cowboys, cowboy
from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RULE = {
    "apiGroups": ["wild.west"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["cowboys"],
}
_numbers = itertools.count(1)


@pytest.fixture
def provider(shard: ServerProcess) -> TestClient:
    return make_cluster(shard, f"provider{next(_numbers)}")


def _name(client: TestClient) -> str:
    return client.prefix.rpartition("/")[2]


def _policy(name: str, **spec: Any) -> tuple[Object, Object]:
    """A validating policy on cowboys and its binding."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec},
    }
    binding_spec: Object = {"policyName": name, "validationActions": ["Deny"]}
    if "paramKind" in spec:
        binding_spec["paramRef"] = {
            "name": "limits",
            "namespace": "default",
            "parameterNotFoundAction": "Deny",
        }
    bound_to = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": binding_spec,
    }
    return policy, bound_to


def _install(client: TestClient, policy: Object, bound_to: Object) -> None:
    for plural, obj in (
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", bound_to),
    ):
        made = client.post(f"{REGISTRATION}/{plural}", obj)
        assert made.status == 201, made


def test_policies_are_the_providers(provider: TestClient, cluster: TestClient) -> None:
    bind_cowboys(provider, cluster)
    rule = {"expression": "object.metadata.name != 'outlaw'", "message": "no outlaws"}
    _install(provider, *_policy("law", validations=[rule]))
    never = {"expression": "false", "message": "the consumer's own"}
    _install(cluster, *_policy("own", validations=[never]))
    refused = cluster.post(COWBOYS, cowboy("outlaw"))
    assert refused.status == 422
    assert "no outlaws" in refused.json["message"]
    assert cluster.post(COWBOYS, cowboy("joe")).status == 201


def test_params_are_the_providers_and_namespaces_the_consumers(
    provider: TestClient, cluster: TestClient
) -> None:
    bind_cowboys(provider, cluster)
    params = {"metadata": {"name": "limits"}, "data": {"wanted": "yes"}}
    maps = "/api/v1/namespaces/default/configmaps"
    provider.post(maps, params)
    cluster.post(maps, {**params, "data": {"wanted": "no"}})
    provider.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"wild": "no"}}})
    cluster.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"wild": "yes"}}})
    checks = [
        {"expression": "params.data.wanted == 'yes'", "message": "other params"},
        {"expression": "namespaceObject.metadata.labels.wild == 'yes'", "message": "other place"},
    ]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    _install(provider, *_policy("law", paramKind=kind, validations=checks))
    made = cluster.post(COWBOYS, cowboy("joe"))
    assert made.status == 201, made


def test_webhooks_are_the_providers_and_see_the_consumer(
    provider: TestClient, cluster: TestClient, hooks_in: Any
) -> None:
    bind_cowboys(provider, cluster)
    hooks = hooks_in(provider)
    hooks.add("Validating", "law", lambda _: {"allowed": True}, rules=[RULE])
    assert cluster.post(COWBOYS, cowboy("joe")).status == 201
    assert cluster.patch(f"{COWBOYS}/joe", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert cluster.delete(f"{COWBOYS}/joe").status == 200
    seen = hooks.seen("law")
    assert [request["operation"] for request in seen] == ["CREATE", "UPDATE", "DELETE"]
    for request in seen:
        shown = request["object"] or request["oldObject"]
        assert shown["metadata"]["annotations"]["kcp.io/cluster"] == _name(cluster)


def test_a_providers_patch_is_applied_to_what_it_saw(
    provider: TestClient, cluster: TestClient, hooks_in: Any
) -> None:
    """The annotation is there to be patched beside, and is not kept from the patch."""
    bind_cowboys(provider, cluster)
    hooks = hooks_in(provider)
    added = {"op": "add", "path": "/metadata/annotations/rides", "value": "well"}
    hooks.add("Mutating", "help", lambda _: hooks.patch_of(added), rules=[RULE])
    made = cluster.post(COWBOYS, cowboy("joe")).json
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": _name(cluster), "rides": "well"}


def test_a_providers_mutations_leave_names_to_be_made(
    provider: TestClient, cluster: TestClient
) -> None:
    """A patch that says nothing changes nothing, not even what is made of the object later."""
    bind_cowboys(provider, cluster)
    never = 'has(object.spec) ? [JSONPatch{op: "remove", path: "/spec"}] : []'
    spec = {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE"]}]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": never}}],
    }
    metadata = {"name": "none"}
    for plural, body in (
        ("mutatingadmissionpolicies", {"metadata": metadata, "spec": spec}),
        ("mutatingadmissionpolicybindings", {"metadata": metadata, "spec": {"policyName": "none"}}),
    ):
        assert provider.post(f"{REGISTRATION}/{plural}", body).status == 201
    given = {**cowboy(""), "metadata": {"generateName": "joe-"}}
    made = cluster.post(COWBOYS, given)
    assert made.status == 201, made
    assert made.json["metadata"]["name"].startswith("joe-")
