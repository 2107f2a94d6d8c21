"""Large objects are not decoded for admission, and webhooks and policies see no difference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

VARYING = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
ALL = ("CREATE", "UPDATE", "DELETE")


def _plain(obj: Any) -> Any:
    """What does not differ between two runs, without the filling that makes an object large."""
    if obj is None:
        return None
    metadata = {k: v for k, v in obj["metadata"].items() if k not in VARYING}
    (entry,) = obj["metadata"].get("managedFields") or [{"fieldsV1": {}}]
    fields = json.loads(json.dumps(entry["fieldsV1"]))
    fields.get("f:data", {}).pop("f:filling", None)
    data = {k: v for k, v in (obj.get("data") or {}).items() if k != "filling"}
    return {**obj, "metadata": metadata | {"fields": fields}, "data": data}


def _script(hooks: Any, name: str, filling: str) -> list[Any]:
    path = f"{hooks.CONFIG_MAPS}/{name}"
    made = hooks.create(name, {"a": "1", "filling": filling}, labels={"app": "x"})
    patched = hooks.client.patch(path, {"data": {"a": "2"}})
    left = hooks.client.patch(path, {"metadata": {"labels": {"app": "y"}}})
    dropped = hooks.client.patch(path, {"metadata": {"labels": None}})
    gone = hooks.client.delete(path)
    replies = (made, patched, left, dropped)
    assert [r.status for r in (*replies, gone)] == [201, 200, 200, 200, 200]
    return [_plain(r.json) for r in replies]


def test_webhooks_see_the_same(hooks: Any) -> None:
    def mark(review: Any) -> Any:
        annotations = {"seen": review["request"]["operation"]}
        return hooks.patch_of(
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/data/hook", "value": "1"},
        )

    selector = {"matchLabels": {"app": "x"}}
    rules = [hooks.rule(operations=["CREATE", "UPDATE"])]
    hooks.add("Mutating", "mark", mark, rules=rules, objectSelector=selector)
    every = [hooks.rule(operations=list(ALL))]
    condition = {"name": "c", "expression": "request.operation == 'DELETE' || has(object.data)"}
    hooks.add(
        "Validating", "see", lambda _: {"allowed": True}, rules=every, matchConditions=[condition]
    )
    found = []
    for filling in ("", "f" * 100_000):
        before = len(hooks.seen("see")), len(hooks.seen("mark"))
        answers = _script(hooks, "x", filling)
        seen = [
            (q["operation"], _plain(q["object"]), _plain(q["oldObject"]))
            for q in hooks.seen("see")[before[0] :] + hooks.seen("mark")[before[1] :]
        ]
        assert len(seen) == 8  # of the five requests, three had the label before or after
        found.append((answers, seen))
    assert found[0] == found[1]
    operation, obj, old = found[1][1][1]
    assert (operation, obj["kind"], obj["apiVersion"]) == ("UPDATE", "ConfigMap", "v1")
    assert obj["metadata"]["annotations"]["kcp.io/cluster"]
    assert (old["data"]["a"], obj["data"]["a"], obj["data"]["hook"]) == ("1", "2", "1")


def test_managers_that_a_webhook_broke_are_put_back(hooks: Any) -> None:
    broken = [{"manager": "x", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1"}]
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": broken}
    hooks.add("Mutating", "break", lambda _: hooks.patch_of(operation))
    made = hooks.create("x", {"a": "f" * 100_000}, fieldManager="me")
    assert made.json["metadata"]["managedFields"][0]["manager"] == "me"
    (warning,) = made.header_all("Warning")
    assert ".metadata.managedFields was in an invalid state after admission" in warning


@pytest.mark.parametrize("size", [10, 100_000])
def test_policies_see_the_same(cluster: TestClient, size: int) -> None:
    root = "/apis/admissionregistration.k8s.io/v1"
    rules = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }  # fmt: skip
    says = (
        "object.kind + ' ' + object.metadata.name + ' ' + object.data.a "
        "+ (oldObject == null ? '' : ' was ' + oldObject.data.a) "
        "+ (has(object.metadata.annotations) ? ' annotated' : '')"
    )
    validation = {"expression": "object.data.a != 'bad'", "messageExpression": says}
    spec = {"matchConstraints": {"resourceRules": [rules]}, "validations": [validation]}
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    for kind, body in (("policies", spec), ("policybindings", binding)):
        made = cluster.post(
            f"{root}/validatingadmission{kind}", {"metadata": {"name": "p"}, "spec": body}
        )
        assert made.status == 201, made

    path = "/api/v1/namespaces/default/configmaps"
    filling = "f" * size
    bad = {"metadata": {"name": "x"}, "data": {"a": "bad", "filling": filling}}
    refused = eventually(lambda: (r := cluster.post(path, bad, dryRun="All")).status == 422 and r)
    assert refused.json["message"].endswith("denied request: ConfigMap x bad")
    good = {"metadata": {"name": "x"}, "data": {"a": "good", "filling": filling}}
    assert cluster.post(path, good).status == 201
    refused = cluster.patch(f"{path}/x", {"data": {"a": "bad"}})
    assert refused.json["message"].endswith("denied request: ConfigMap x bad was good")
