"""Policies see large objects as they see small ones, although workers read and change them."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess

from .test_large_reads import (
    CONFIG_MAPS,
    FREE,
    WIDGETS,
    change_schema,
    definition,
    jobs,
    serve,
    widget,
)

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


def mutations(*patches: str) -> list[dict[str, Any]]:
    """JSON patches are lists, all else are configurations."""
    return [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}
        if patch.startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": patch}}
        for patch in patches
    ]


def mutating(resource: str, *patches: str) -> dict[str, Any]:
    return {
        "matchConstraints": rules(resource, "CREATE", "UPDATE"),
        "reinvocationPolicy": "IfNeeded",
        "mutations": mutations(*patches),
    }


@pytest.mark.parametrize("length", [10, 1_000_000], ids=["small", "large"])
def test_mutating_policies(cluster: TestClient, length: int) -> None:
    """Each mutation sees what the one before made; what does not hold changes nothing."""
    size = "string(size(object.data.filler))"
    spec = mutating(
        "configmaps",
        f"Object{{data: {{'size': {size}}}}}",
        "[JSONPatch{op: 'add', path: '/data/next', value: object.data.size + 'y'}]",
        "[JSONPatch{op: 'test', path: '/data/next', value: 'n'},"
        "JSONPatch{op: 'remove', path: '/data/filler'}]",
        "Object{metadata: Object.metadata{labels: {'allowed': string("
        "authorizer.group('').resource('secrets').check('get').allowed())}}}",
    )
    bind(cluster, "mutating", spec)
    body = {"metadata": {"name": "a"}, "data": {"filler": "x" * length}}
    dry = f"{CONFIG_MAPS}?dryRun=All"
    eventually(lambda: "size" in cluster.post(dry, body).json["data"])
    made = cluster.post(CONFIG_MAPS, body)
    assert made.status == 201, made
    wanted = {"filler": "x" * length, "size": f"{length}", "next": f"{length}y"}
    assert made.json["data"] == wanted
    assert made.json["metadata"]["labels"] == {"allowed": "true"}
    changed = cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"size": "0", "next": None}}, MERGE)
    assert changed.json["data"] == wanted


@pytest.mark.parametrize("length", [10, 1_000_000], ids=["small", "large"])
def test_mutations_that_fail(cluster: TestClient, length: int) -> None:
    spec = mutating(
        "configmaps",
        "[JSONPatch{op: 'remove', path: '/data/missing'}]",
        "Object{data: {'a': object.data.missing}}",
    )
    bind(cluster, "mutating", spec)
    body = {"metadata": {"name": "a"}, "data": {"filler": "x" * length}}
    eventually(lambda: cluster.post(f"{CONFIG_MAPS}?dryRun=All", body).status == 403)
    refused = cluster.post(CONFIG_MAPS, body).json
    first, second = (cause["message"] for cause in refused["details"]["causes"])
    assert refused["message"] == first
    assert "Unable to remove nonexistent key: missing" in first
    assert "no such key: missing" in second


def test_policies_that_make_objects_large(shard: ServerProcess, cluster: TestClient) -> None:
    """The write begins anew, by workers."""
    copies = (f"JSONPatch{{op:'copy',from:'/spec/a',path:'/spec/b{n}'}}" for n in range(20))
    serve(cluster, definition(FREE))
    bind(cluster, "mutating", mutating("widgets", f"[{','.join(copies)}]"))
    small = widget("small", a=[{}])
    eventually(lambda: "b19" in cluster.post(f"{WIDGETS}?dryRun=All", small).json["spec"])
    before = jobs(shard)
    assert cluster.post(WIDGETS, small).json["spec"]["b19"] == [{}]
    assert jobs(shard) == before
    made = cluster.post(WIDGETS, widget("a", a=[{}] * 5_000))
    assert made.status == 201, made
    assert made.json["spec"]["b19"] == [{}] * 5_000
    assert jobs(shard) > before
