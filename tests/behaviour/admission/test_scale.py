"""Admission of writes through `scale`: what is admitted is the scale, not the object."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import MERGE, eventually

GROUP = "fleet.example.com"
ROOT = "/apis/admissionregistration.k8s.io/v1"
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def _version(name: str, *, storage: bool) -> dict[str, Any]:
    count = {"type": "integer", "maximum": 50}
    spec = {"type": "object", "properties": {"size": count, "color": {"type": "string"}}}
    status = {"type": "object", "properties": {"size": {"type": "integer"}}}
    properties = {"spec": spec, "status": status}
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    return {
        "name": name, "served": True, "storage": storage,
        "subresources": {"status": {}, "scale": paths},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }  # fmt: skip


class Fleets:
    """A kind that can be scaled, in two versions, with one object; and webhooks for it."""

    def __init__(self, hooks: Any, *, is_large: bool) -> None:
        self.hooks, self.client = hooks, hooks.client
        self._notes = {"notes": "x" * 40_000} if is_large else {}
        versions = [_version("v1", storage=True), _version("v2", storage=False)]
        names = {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"}
        definition = {
            "metadata": {"name": f"fleets.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
        }
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert self.client.post(crds, definition).status == 201
        eventually(lambda: self.client.get(self.path("v2")).status == 200)

    def path(self, version: str = "v1") -> str:
        return f"/apis/{GROUP}/{version}/namespaces/default/fleets"

    def make(self, **spec: Any) -> None:
        metadata = {"name": "f", "annotations": self._notes}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Fleet", "metadata": metadata}
        made = self.client.post(self.path(), {**body, "spec": spec}, fieldManager="maker")
        assert made.status == 201, made

    def get(self) -> Any:
        return self.client.get(f"{self.path()}/f").json

    def scale(self, size: int | None, version: str = "v1", **query: Any) -> Any:
        spec = {} if size is None else {"replicas": size}
        path = f"{self.path(version)}/f/scale"
        return self.client.patch(path, {"spec": spec}, MERGE, fieldManager="scaler", **query)

    def rule(self, *resources: str) -> list[Any]:
        return [
            self.hooks.rule(apiGroups=[GROUP], operations=["UPDATE"], resources=list(resources))
        ]

    def listen(self, kind: str, name: str, *resources: str, **answer: Any) -> None:
        respond = lambda _: answer or {"allowed": True}  # noqa: E731 - of this call
        self.hooks.add(kind, name, respond, rules=self.rule(*resources))


@pytest.fixture(params=("small", "large"))
def fleets(hooks: Any, request: pytest.FixtureRequest) -> Fleets:
    """Large objects are changed by worker processes, and nobody must see a difference."""
    return Fleets(hooks, is_large=request.param == "large")


def test_webhooks_are_shown_the_scale(fleets: Fleets) -> None:
    fleets.make(size=2, color="red")
    for kind in ("Mutating", "Validating"):
        fleets.listen(kind, f"{kind.lower()}-scale", "fleets/scale")
        fleets.listen(kind, f"{kind.lower()}-main", "fleets")
    assert fleets.scale(3).json["spec"] == {"replicas": 3}
    for kind in ("mutating", "validating"):
        assert fleets.hooks.seen(f"{kind}-main") == []
        (request,) = fleets.hooks.seen(f"{kind}-scale")
        assert (request["kind"], request["requestKind"]) == (SCALE, SCALE)
        assert (request["resource"]["resource"], request["subResource"]) == ("fleets", "scale")
        for name, size in (("object", 3), ("oldObject", 2)):
            shown = request[name]
            assert (shown["apiVersion"], shown["kind"]) == ("autoscaling/v1", "Scale")
            assert (shown["spec"], shown["metadata"]["name"]) == ({"replicas": size}, "f")
            # managers are shown while the scale may still change
            assert ("managedFields" in shown["metadata"]) == (kind == "mutating")
    (request,) = fleets.hooks.seen("mutating-scale")
    (entry,) = request["object"]["metadata"]["managedFields"]
    assert (entry["manager"], entry["apiVersion"]) == ("scaler", "autoscaling/v1")
    assert fleets.get()["spec"] == {"size": 3, "color": "red"}


def test_a_scale_that_is_sent_is_shown_as_it_was_sent(fleets: Fleets) -> None:
    fleets.make(size=2)
    fleets.listen("Mutating", "sent", "fleets/scale")
    body = {"metadata": {"name": "f", "labels": {"a": "b"}}, "spec": {"replicas": 4}}
    assert fleets.client.put(f"{fleets.path()}/f/scale", body).status == 200
    (request,) = fleets.hooks.seen("sent")
    assert request["object"]["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in fleets.get()["metadata"]


PATCHES: dict[str, tuple[Any, int, Any]] = {
    "replicas": ({"op": "replace", "path": "/spec/replicas", "value": 9}, 200, 9),
    "none": ({"op": "remove", "path": "/spec/replicas"}, 200, 0),
    "back": ({"op": "replace", "path": "/spec/replicas", "value": 2}, 200, 2),
    "labels": ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}, 200, 7),
    "unknown": ({"op": "add", "path": "/spec/color", "value": "red"}, 200, 7),
    "too many": (
        {"op": "replace", "path": "/spec/replicas", "value": 51}, 422,
        "spec.size: Invalid value: 51: spec.size in body should be less than or equal to 50",
    ),
    "text": (
        {"op": "replace", "path": "/spec/replicas", "value": "x"}, 500,
        (
            "unable to convert unstructured object to autoscaling/v1, Kind=Scale: "
            "unrecognized type: int32"
        ),
    ),
    "kind": (
        {"op": "replace", "path": "/kind", "value": "Fleet"}, 500,
        (
            'no kind "Fleet" is registered for version "autoscaling/v1" in scheme '
            '"pkg/runtime/scheme.go:111"'
        ),
    ),
    "stale": (
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, 409,
        "the object has been modified",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
def test_webhooks_change_the_scale(fleets: Fleets, name: str) -> None:
    operation, code, expected = PATCHES[name]
    fleets.make(size=2)
    fleets.listen("Mutating", "patch", "fleets/scale", **fleets.hooks.patch_of(operation))
    reply = fleets.scale(7)
    assert reply.status == code, reply
    if code != 200:
        assert expected in reply.json["message"]
        assert fleets.get()["spec"] == {"size": 2}
        return
    assert reply.json["spec"].get("replicas", 0) == expected
    assert fleets.get()["spec"] == {"size": expected}
    # who scales owns the size, whatever admission makes of it
    owners = {e["manager"] for e in fleets.get()["metadata"]["managedFields"]}
    assert "scaler" in owners


def test_a_size_that_was_never_set(fleets: Fleets) -> None:
    """It is upstream's smallest number until the scale says one, and must say one."""
    fleets.make(color="red")
    fleets.listen("Mutating", "first", "fleets/scale")
    refused = fleets.scale(None)
    assert refused.status == 400
    assert refused.json["message"] == 'the spec replicas field ".spec.size" cannot be empty'
    assert fleets.scale(3).status == 200
    shown = [request["oldObject"]["spec"] for request in fleets.hooks.seen("first")]
    assert shown == [{"replicas": -(1 << 31)}] * 2


def test_a_scale_is_the_same_in_all_versions(fleets: Fleets) -> None:
    fleets.make(size=2)
    more = {"op": "replace", "path": "/spec/replicas", "value": 9}
    fleets.listen("Mutating", "patch", "fleets/scale", **fleets.hooks.patch_of(more))
    assert fleets.scale(7, "v2").json["spec"] == {"replicas": 9}
    (request,) = fleets.hooks.seen("patch")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v2")
    assert request["object"]["apiVersion"] == "autoscaling/v1"


def _add_policy(fleets: Fleets, kind: str, spec: dict[str, Any], **binding: Any) -> None:
    constraints = {"resourceRules": fleets.rule("fleets/scale")}
    policy = {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, **spec}}
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p", **binding}}
    for path, body in ((f"{kind}policies", policy), (f"{kind}policybindings", bound)):
        made = fleets.client.post(f"{ROOT}/{path}", body)
        assert made.status == 201, made


def test_validating_policies_judge_the_scale(fleets: Fleets) -> None:
    fleets.make(size=2)
    text = "object.kind + ' ' + request.kind.kind + ' of ' + string(oldObject.spec.replicas)"
    rule = {"expression": "object.spec.replicas < 10", "messageExpression": text}
    _add_policy(fleets, "validatingadmission", {"validations": [rule]}, validationActions=["Deny"])
    refused = eventually(lambda: (r := fleets.scale(10, dryRun="All")).status == 422 and r)
    assert refused.json["message"].endswith("denied request: Scale Scale of 2")
    assert fleets.scale(9).status == 200


@pytest.mark.parametrize(
    "mutation",
    [
        {
            "patchType": "JSONPatch",
            "jsonPatch": {
                "expression": '[JSONPatch{op: "replace", path: "/spec/replicas", value: 4}]'
            },
        },
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 4}}"},
        },
    ],
)
def test_mutating_policies_change_the_scale(fleets: Fleets, mutation: dict[str, Any]) -> None:
    fleets.make(size=2)
    spec = {"mutations": [mutation], "reinvocationPolicy": "Never"}
    _add_policy(fleets, "mutatingadmission", spec)
    eventually(lambda: fleets.scale(9, dryRun="All").json["spec"] == {"replicas": 4})
    assert fleets.scale(9).status == 200
    assert fleets.get()["spec"] == {"size": 4}
