"""Policies see large objects as they see small ones, although workers read and change them."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually

from .test_large_reads import FREE, WIDGETS, change_schema, definition, serve, widget

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def rules(resource: str, *operations: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": [resource],
    }
    return {"resourceRules": [rule]}


def bind(cluster: TestClient, kind: str, spec: dict[str, Any], **bound: Any) -> None:
    """A policy that is in force."""
    metadata = {"name": "p"}
    path = f"{ADMISSION}/{kind}admissionpolicies"
    assert cluster.post(path, {"metadata": metadata, "spec": spec}).status == 201
    binding = {"metadata": metadata, "spec": {"policyName": "p", **bound}}
    assert cluster.post(path.replace("policies", "policybindings"), binding).status == 201


@pytest.mark.parametrize("length", [10, 1_000_000], ids=["small", "large"])
def test_old_objects_of_an_earlier_schema(cluster: TestClient, length: int) -> None:
    """With defaults of the schema of today."""
    serve(cluster, definition(FREE))
    assert cluster.post(WIDGETS, widget("a", text="x" * length, gone=1)).status == 201
    text = {"type": "string"}
    properties = {"text": text, "added": {**text, "default": "y"}}
    change_schema(cluster, {"type": "object", "properties": properties})
    eventually(lambda: cluster.get(f"{WIDGETS}/a").json["spec"].get("added") == "y")
    expression = "oldObject.spec.added != 'y' || has(oldObject.spec.gone)"
    message = "string(size(oldObject.spec.text)) + oldObject.kind"
    spec = {
        "matchConstraints": rules("widgets", "UPDATE", "DELETE"),
        "validations": [{"expression": expression, "messageExpression": message}],
    }
    bind(cluster, "validating", spec, validationActions=["Deny"])
    wanted = f"{length}Widget"

    def refusal(reply: Any) -> bool:
        return reply.status == 422 and wanted in reply.json["message"]

    path, labelled = f"{WIDGETS}/a?dryRun=All", {"metadata": {"labels": {"a": "b"}}}
    eventually(lambda: refusal(cluster.patch(path, labelled, MERGE)))
    assert refusal(cluster.delete(path))
