"""Mutating webhooks: patches, their order, the second round, and who owns what they change."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pykcp.testing.client import APPLY, MERGE, eventually


def _add(hooks: Any, key: str) -> Any:
    """Adds a data key, once; its value tells how many there were."""

    def respond(review: Any) -> Any:
        data = review["request"]["object"].get("data") or {}
        if key in data:
            return {"allowed": True}
        value = {**data, key: str(len(data))}
        return hooks.patch_of({"op": "add", "path": "/data", "value": value})

    return respond


def test_each_sees_what_the_one_before_it_did(hooks: Any) -> None:
    for name in ("c", "a", "b"):
        hooks.add("Mutating", name, _add(hooks, name))
    made = hooks.create("x")
    assert made.json["data"] == {"a": "0", "b": "1", "c": "2"}


def test_those_who_want_are_asked_again_after_a_later_change(hooks: Any) -> None:
    hooks.add("Mutating", "first", _add(hooks, "first"), reinvocationPolicy="IfNeeded")
    hooks.add("Mutating", "never", _add(hooks, "never"))
    hooks.add("Mutating", "unmoved", lambda _: {"allowed": True}, reinvocationPolicy="IfNeeded")
    assert hooks.create("x").json["data"] == {"first": "0", "never": "1"}
    assert [len(hooks.seen(name)) for name in ("first", "never", "unmoved")] == [2, 1, 1]
    assert hooks.seen("first")[1]["object"]["data"] == {"first": "0", "never": "1"}


def test_the_client_owns_what_it_sent_and_nobody_the_rest(hooks: Any) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}
    hooks.add("Mutating", "label", lambda _: hooks.patch_of(label))
    made = hooks.create("x", {"a": "1"}, fieldManager="me").json
    assert made["metadata"]["labels"] == {"by": "hook"}
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    applied = hooks.client.request(
        "PATCH", f"{hooks.CONFIG_MAPS}/applied",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"z": "1"}},
        content_type=APPLY, fieldManager="ap",
    )  # fmt: skip
    assert applied.json["metadata"]["labels"] == {"by": "hook"}
    assert applied.json["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {"f:z": {}}}


def test_managers_that_a_webhook_broke_are_put_back(hooks: Any) -> None:
    broken = [{"manager": "x", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1"}]
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": broken}
    hooks.add("Mutating", "break", lambda _: hooks.patch_of(operation))
    made = hooks.create("x", {"a": "1"}, fieldManager="me")
    assert made.json["metadata"]["managedFields"][0]["manager"] == "me"
    (warning,) = made.header_all("Warning")
    assert ".metadata.managedFields was in an invalid state after admission" in warning


FAILURES = {
    "remove": (
        {"op": "remove", "path": "/data/none"},
        "error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
    ),
    "add": (
        {"op": "add", "path": "/x/y/z", "value": 1},
        'add operation does not apply: doc is missing path: "/x/y/z": missing value',
    ),
    "replace": (
        {"op": "replace", "path": "/x/y", "value": 1},
        "replace operation does not apply: doc is missing path: /x/y: missing value",
    ),
    "test": ({"op": "test", "path": "/kind", "value": "Z"}, "testing value /kind failed: test failed"),
    "kind": ({"op": "nope", "path": "/data"}, "Unexpected kind: nope"),
    "type": (
        {"op": "add", "path": "/data", "value": "text"},
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
    ),
    "whole": (
        {"op": "replace", "path": "", "value": [1]},
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_patch_that_does_not_fit_is_an_internal_error_also_when_failures_are_ignored(
    hooks: Any, case: str
) -> None:
    operation, why = FAILURES[case]
    hooks.add("Mutating", "bad", lambda _: hooks.patch_of(operation), failurePolicy="Ignore")
    refused = hooks.create("x", {"a": "1"})
    assert refused.status == 500
    assert refused.json["message"].startswith(f"Internal error occurred: {why}")


UNDECODABLE = {
    "no type": ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
    "no patch": ({"patchType": "JSONPatch"}, "response.patchType but not response.patch"),
    "base64": ({"patchType": "JSONPatch", "patch": "***"}, "illegal base64 data at input byte 0"),
    "json": (
        {"patchType": "JSONPatch", "patch": base64.b64encode(b"zz").decode()},
        (
            "received undecodable patch in webhook response: invalid character 'z' looking for "
            "beginning of value"
        ),
    ),
    "other type": (
        {"patchType": "Merge", "patch": base64.b64encode(b'[{"op":"add","path":"/a"}]').decode()},
        'unsupported patch type "Merge"',
    ),
}


@pytest.mark.parametrize("case", UNDECODABLE)
def test_a_patch_that_cannot_be_read_is_no_answer(hooks: Any, case: str) -> None:
    response, why = UNDECODABLE[case]
    hooks.add("Mutating", "bad", lambda _: {"allowed": True, **response})
    refused = hooks.create("x")
    assert refused.status == 500
    assert why in refused.json["message"]
    hooks.client.patch(
        f"{hooks.ROOT}/mutatingwebhookconfigurations/bad",
        [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}],
        content_type="application/json-patch+json",
    )
    assert hooks.create("x").status == 201


def test_what_it_makes_is_validated_pruned_and_completed(hooks: Any) -> None:
    unknown = {"op": "add", "path": "/unknown", "value": 1}
    namespace = {"op": "remove", "path": "/metadata/namespace"}
    hooks.add("Mutating", "extra", lambda _: hooks.patch_of(unknown, namespace))
    made = hooks.create("x", {"a": "1"})
    assert made.status == 201
    assert "unknown" not in made.json
    assert made.json["metadata"]["namespace"] == "default"
    bad = {"op": "add", "path": "/data/bad key", "value": "1"}
    hooks.add("Mutating", "invalid", lambda _: hooks.patch_of(bad))
    assert hooks.create("y", {"a": "1"}).status == 422


def test_the_older_review_needs_no_patch_type(hooks: Any) -> None:
    patch = base64.b64encode(b'[{"op":"add","path":"/data/beta","value":"1"}]').decode()
    hooks.add(
        "Mutating", "beta", lambda _: {"allowed": True, "patch": patch},
        admissionReviewVersions=["v1beta1"],
    )  # fmt: skip
    assert hooks.create("x", {"a": "1"}).json["data"] == {"a": "1", "beta": "1"}


def test_updates_are_mutated_too(hooks: Any) -> None:
    hooks.create("x", {"a": "1"})
    hooks.add("Mutating", "stamp", _add(hooks, "stamp"))
    changed = hooks.client.patch(f"{hooks.CONFIG_MAPS}/x", {"data": {"b": "2"}})
    assert changed.json["data"] == {"a": "1", "b": "2", "stamp": "2"}
    stored = hooks.client.get(f"{hooks.CONFIG_MAPS}/x")
    assert stored.json["data"] == changed.json["data"]


def test_an_annotation_can_be_added_to_those_that_it_sees(hooks: Any) -> None:
    """Also if the only one that it sees is that of the cluster."""
    note = {"op": "add", "path": "/metadata/annotations/note", "value": "1"}
    hooks.add("Mutating", "note", lambda _: hooks.patch_of(note))
    made = hooks.create("x", {"a": "1"})
    assert made.status == 201, made
    assert made.json["metadata"]["annotations"]["note"] == "1"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_owners_that_a_webhook_repeats_are_removed(hooks: Any, method: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1-2"}
    twice = {"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}
    hooks.create("x")
    hooks.add("Mutating", "owners", lambda _: hooks.patch_of(twice))
    body = {"metadata": {"name": "y" if method == "POST" else "x"}}
    path = hooks.CONFIG_MAPS if method == "POST" else f"{hooks.CONFIG_MAPS}/x"
    form = MERGE if method == "PATCH" else "application/json"
    reply = eventually(
        lambda: (
            (r := hooks.client.request(method, path, body, form, dryRun="All")).header("warning")
            and r
        )
    )
    assert "after mutating admission happens" in reply.header("warning")
    assert reply.json["metadata"]["ownerReferences"] == [owner]
