"""Admission of custom resources: other versions, status, pruning and defaults after a patch."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import eventually

GROUP = "shop.example.com"


def _version(name: str, *, storage: bool) -> dict[str, Any]:
    item = {
        "type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "string"}},
    }  # fmt: skip
    spec = {
        "a": {"type": "string"},
        "n": {"type": "integer"},
        "d": {"type": "string", "default": f"of-{name}"},
        "l": {
            "type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        },
    }  # fmt: skip
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"s": {"type": "string"}}},
        },
    }
    return {
        "name": name, "served": True, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip


class Gadgets:
    """A kind with two versions, and webhooks for it."""

    def __init__(self, hooks: Any) -> None:
        self.hooks = hooks
        self.client = hooks.client
        names = {
            "plural": "gadgets",
            "singular": "gadget",
            "kind": "Gadget",
            "listKind": "GadgetList",
        }
        made = self.client.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "metadata": {"name": f"gadgets.{GROUP}"},
                "spec": {
                    "group": GROUP, "scope": "Namespaced", "names": names,
                    "versions": [_version("v1", storage=True), _version("v2", storage=False)],
                },
            },
        )  # fmt: skip
        assert made.status == 201, made
        eventually(lambda: self.client.get(self.path("v2")).status == 200)

    def path(self, version: str) -> str:
        return f"/apis/{GROUP}/{version}/namespaces/default/gadgets"

    def rule(self, version: str = "v1", *resources: str) -> list[Any]:
        return [
            self.hooks.rule(
                apiGroups=[GROUP], apiVersions=[version], resources=list(resources or ("gadgets",))
            )
        ]

    def add(self, name: str, *operations: Any, **changes: Any) -> None:
        respond = lambda _: self.hooks.patch_of(*operations)  # noqa: E731 - of this call
        self.hooks.add("Mutating", name, respond, **{"rules": self.rule(), **changes})

    def create(self, version: str, spec: Any = None) -> Any:
        body = {
            "apiVersion": f"{GROUP}/{version}", "kind": "Gadget", "metadata": {"name": "g"},
            "spec": spec or {},
        }  # fmt: skip
        return self.client.post(self.path(version), body)


@pytest.fixture
def gadgets(hooks: Any) -> Gadgets:
    return Gadgets(hooks)


def test_a_webhook_for_one_version_sees_the_others_in_it(gadgets: Gadgets) -> None:
    added = {"op": "add", "path": "/spec/a", "value": "hook"}
    unknown = {"op": "add", "path": "/spec/unknown", "value": 1}
    gadgets.add("equivalent", added, unknown)
    gadgets.add("exact", {"op": "add", "path": "/spec/n", "value": 1}, matchPolicy="Exact")
    made = gadgets.create("v2")
    assert (made.status, made.json["apiVersion"]) == (201, f"{GROUP}/v2")
    assert made.json["spec"] == {"a": "hook", "d": "of-v2"}
    (request,) = gadgets.hooks.seen("equivalent")
    assert request["object"]["apiVersion"] == f"{GROUP}/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert gadgets.hooks.seen("exact") == []


def test_what_a_patch_leaves_is_defaulted_and_validated(gadgets: Gadgets) -> None:
    gadgets.add("undefault", {"op": "remove", "path": "/spec/d"})
    assert gadgets.create("v1").json["spec"]["d"] == "of-v1"
    gadgets.add("mistype", {"op": "add", "path": "/spec/n", "value": "text"})
    gadgets.client.delete(f"{gadgets.path('v1')}/g")
    assert gadgets.create("v1").status == 422


def test_metadata_that_does_not_decode_is_a_bare_error(gadgets: Gadgets) -> None:
    gadgets.add("label", {"op": "add", "path": "/metadata/labels", "value": {"x": 1}})
    refused = gadgets.create("v1")
    assert refused.status == 500
    assert "reason" not in refused.json
    assert refused.json["message"] == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_writes_to_status_are_a_subresource(gadgets: Gadgets) -> None:
    gadgets.create("v2")
    status = {"op": "add", "path": "/status", "value": {"s": "hook"}}
    sneaky = {"op": "add", "path": "/spec/a", "value": "no"}
    gadgets.add("status", status, sneaky, rules=gadgets.rule("v1", "gadgets/status"))
    path = f"{gadgets.path('v2')}/g"
    assert gadgets.client.patch(path, {"spec": {"a": "mine"}}).json["spec"]["a"] == "mine"
    changed = gadgets.client.patch(f"{path}/status", {"status": {"s": "sent"}})
    assert (changed.json["status"], changed.json["spec"]["a"]) == ({"s": "hook"}, "mine")
    (request,) = gadgets.hooks.seen("status")
    assert (request["subResource"], request["requestSubResource"]) == ("status", "status")


def _add_policy(gadgets: Gadgets, *mutations: Any) -> None:
    root, client = gadgets.hooks.ROOT, gadgets.client
    spec = {
        "matchConstraints": {"resourceRules": gadgets.rule()},
        "reinvocationPolicy": "Never",
        "mutations": mutations,
    }
    policy = {"metadata": {"name": "p"}, "spec": spec}
    assert client.post(f"{root}/mutatingadmissionpolicies", policy).status == 201
    bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
    assert client.post(f"{root}/mutatingadmissionpolicybindings", bound).status == 201


def _applying(expression: str) -> Any:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def test_an_empty_patch_leaves_the_object_whole(gadgets: Gadgets) -> None:
    """A name is generated after policies ran, from metadata that decoding must not replace."""
    expression = 'object.spec.n > 1 ? [JSONPatch{op: "remove", path: "/spec/n"}] : []'
    nothing = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    _add_policy(gadgets, nothing, _applying('Object{spec: Object.spec{a: "set"}}'))
    body = {
        "apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"generateName": "g-"},
        "spec": {"n": 1},
    }  # fmt: skip
    made = gadgets.client.post(gadgets.path("v1"), body)
    assert made.status == 201, made
    assert made.json["metadata"]["name"].startswith("g-")
    assert made.json["spec"] == {"a": "set", "n": 1, "d": "of-v1"}


def test_policies_merge_lists_by_their_keys(gadgets: Gadgets) -> None:
    expression = (
        'Object{spec: Object.spec{l: [Object.spec.l{k: "b", v: "new"}, Object.spec.l{k: "c"}]}}'
    )
    _add_policy(gadgets, _applying(expression))
    made = gadgets.create("v2", {"l": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]})
    assert made.json["spec"]["l"] == [{"k": "a", "v": "1"}, {"k": "b", "v": "new"}, {"k": "c"}]
