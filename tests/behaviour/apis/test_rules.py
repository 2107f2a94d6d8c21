"""What is refused of schemas, exports, bindings and slices, in the words of a kcp."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.testing.apis import (
    BINDINGS,
    CACHED,
    EXPORTS,
    OLD_BINDINGS,
    OLD_EXPORTS,
    RESOURCE,
    SCHEMAS,
    accepted,
    binding,
    export,
    make,
    old_export,
    schema,
)
from pykcp.testing.client import TestClient
from pykcp.types import Object

KEPT = "apis.v1alpha2.kcp.io/"


def refused(client: TestClient, path: str, body: Object) -> str:
    """The reason for which a new object is forbidden."""
    reply = client.post(path, body)
    assert reply.status == 403, reply
    status = reply.json
    assert status["reason"] == "Forbidden"
    resource, name = path.rpartition("/")[2], body["metadata"]["name"]
    group = path.split("/")[2]
    start = f'{resource}.{group} "{name}" is forbidden: '
    assert status["message"].startswith(start)
    message: str = status["message"]
    return message.removeprefix(start)


def larger(body: Object, octets: int) -> Object:
    """The same object, so long that a worker process validates it."""
    if not octets:
        return body
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), "filler": "x" * octets}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


SIZES = (0, 40_000)
"""Octets that are added to an object: with more than 32 KiB it is large."""


def version(**more: Any) -> list[Object]:
    (given,) = schema()["spec"]["versions"]
    return [{**given, **more}]


BAD_SCHEMAS = {
    "another resource's name": (
        schema("v1.other.wild.west"),
        '[metadata.name: Invalid value: "v1.other.wild.west": must end in .cowboys.wild.west]',
    ),
    "dots in the prefix": (
        schema("a.b.cowboys.wild.west"),
        (
            '[metadata.name: Invalid value: "a.b.cowboys.wild.west": must match '
            "^[a-z]([-a-z0-9]*[a-z0-9])?$ in front of .cowboys.wild.west]"
        ),
    ),
    "core by its name": (
        schema("v1.cowboys.core", group="core"),
        '[spec.group: Invalid value: "core": must be empty string for the core group]',
    ),
    "a group of one word": (
        schema("v1.cowboys.wild", group="wild"),
        '[spec.group: Invalid value: "wild": should be a domain with at least one dot]',
    ),
    "a protected group": (
        schema("v1.cowboys.x.k8s.io", group="x.k8s.io"),
        (
            "[metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups "
            'must have approval annotation "api-approved.kubernetes.io", '
            "see https://github.com/kubernetes/enhancements/pull/1111]"
        ),
    ),
    "a schema that is none": (
        schema(versions=version(schema={"type": 5})),
        (
            '[spec.versions[0].schema: Invalid value: "{\\"type\\":5}": invalid JSON: json: cannot '
            "unmarshal number into Go struct field JSONSchemaProps.type of type string]"
        ),
    ),
    "a schema that is not structural": (
        schema(versions=version(schema={"type": "object", "properties": {"a": {}}})),
        (
            "[spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: "
            "must not be empty for specified object fields]"
        ),
    ),
    "no singular": (
        schema(names={"plural": "cowboys", "kind": "Cowboy", "listKind": "CowboyList"}),
        "[spec.names.singular: Required value]",
    ),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schemas(cluster: TestClient, case: str) -> None:
    body, why = BAD_SCHEMAS[case]
    assert refused(cluster, SCHEMAS, body) == why


def test_schemas_are_never_changed(cluster: TestClient) -> None:
    with_status = schema(versions=version(subresources={"status": {}}))
    assert cluster.post(SCHEMAS, with_status).status == 201
    at = f"{SCHEMAS}/v1.cowboys.wild.west"
    changed = cluster.patch(at, {"spec": {"scope": "Cluster"}})
    assert changed.status == 403
    assert changed.json["message"].endswith(": is immutable]")
    without_status = cluster.patch(at, {"spec": {"versions": version(subresources={})}})
    assert without_status.status == 403
    assert without_status.json["message"].endswith(": is immutable]")
    assert cluster.patch(at, {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_rules_of_a_schema_are_compiled(cluster: TestClient) -> None:
    rule = {"type": "string", "x-kubernetes-validations": [{"rule": "self.x == 1"}]}
    judged = {"type": "object", "properties": {"a": rule}}
    why = refused(cluster, SCHEMAS, schema(versions=version(schema=judged)))
    assert "compilation failed" in why


BAD_EXPORTS: dict[str, tuple[str, Object, str]] = {
    "a claim on somebody's resource": (
        EXPORTS,
        export(
            "e", permissionClaims=[{"group": "wild.west", "resource": "cowboys", "verbs": ["*"]}]
        ),
        (
            'spec.permissionClaims[0].identityHash: Invalid value: "": '
            "identityHash is required for API types that are not built-in"
        ),
    ),
    "a schema of another resource": (
        EXPORTS,
        export("e", resources=[{**RESOURCE, "schema": "v1.other.wild.west"}]),
        (
            'spec.resources[0].schema: Invalid value: "v1.other.wild.west": '
            "must end in .cowboys.wild.west"
        ),
    ),
    "schemas that cannot be read": (
        OLD_EXPORTS,
        make(OLD_EXPORTS, "e", annotations={f"{KEPT}resource-schemas": "{"}),
        (
            f'metadata.annotations[{KEPT}resource-schemas]: Invalid value: "{{": '
            "failed to decode overhanging resource schemas"
        ),
    ),
    "a schema in two places": (
        OLD_EXPORTS,
        make(
            OLD_EXPORTS,
            "e",
            {"latestResourceSchemas": [RESOURCE["schema"]]},
            {f"{KEPT}resource-schemas": json.dumps([RESOURCE])},
        ),
        (
            f"metadata.annotations[{KEPT}resource-schemas]: Invalid value: "
            f"{json.dumps(json.dumps([RESOURCE]))}: duplicate resource schema"
        ),
    ),
    "claims that nobody makes": (
        OLD_EXPORTS,
        make(
            OLD_EXPORTS,
            "e",
            annotations={f"{KEPT}permission-claims": '[{"resource":"secrets"}]'},
        ),
        (
            f"metadata.annotations[{KEPT}permission-claims]: Invalid value: "
            '"[{\\"resource\\":\\"secrets\\"}]": permission claims defined in annotation do not '
            "match permission claims defined in spec"
        ),
    ),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", BAD_EXPORTS)
def test_bad_exports(cluster: TestClient, case: str, size: int) -> None:
    path, body, why = BAD_EXPORTS[case]
    assert refused(cluster, path, larger(body, size)) == why


@pytest.mark.parametrize("size", SIZES)
def test_a_schema_name_without_a_resource_cannot_be_converted(
    cluster: TestClient, size: int
) -> None:
    body = larger(old_export("e", latestResourceSchemas=["foo"]), size)
    reply = cluster.post(OLD_EXPORTS, body)
    assert reply.status == 500
    assert reply.json["message"] == (
        'failed to convert v1alpha1 APIExport to v1alpha2: invalid schema "foo": '
        "must have at least 3 dot-separated segments"
    )


def test_the_path_of_an_export_is_its_workspaces(root: TestClient) -> None:
    given = make(EXPORTS, "p", annotations={"kcp.io/path": "elsewhere"})
    assert root.post(EXPORTS, given).json["metadata"]["annotations"]["kcp.io/path"] == "root"
    changed = root.patch(f"{EXPORTS}/p", {"metadata": {"annotations": {"kcp.io/path": None}}})
    assert changed.json["metadata"]["annotations"]["kcp.io/path"] == "root"


BAD_BINDINGS: dict[str, tuple[str, Object, str]] = {
    "both kinds of selectors": (
        BINDINGS,
        binding(
            "b",
            "e",
            claims=[accepted("secrets", selector={"matchAll": True, "matchLabels": {"a": "b"}})],
        ),
        (
            "[spec.permissionClaims[0].selector.matchLabels: Invalid value: "
            '{"matchLabels":{"a":"b"},"matchAll":true}: matchLabels cannot be used with matchAll]'
        ),
    ),
    "no selector": (
        BINDINGS,
        binding("b", "e", claims=[{**accepted("secrets"), "selector": None}]),
        (
            "[spec.permissionClaims[0].selector: Required value: "
            "either one of matchAll, matchLabels, or matchExpressions must be set]"
        ),
    ),
    "a workspace that is not there": (
        BINDINGS,
        binding("b", "e", "root:nowhere"),
        "unable to create APIBinding: no permission to bind to export root:nowhere:e",
    ),
    "claims that cannot be read": (
        OLD_BINDINGS,
        make(
            OLD_BINDINGS,
            "b",
            {"reference": {"export": {"name": "e"}}},
            {f"{KEPT}acceptable-permission-claims": '[{"verbs":1}]'},
        ),
        (
            f"metadata.annotations[{KEPT}acceptable-permission-claims]: Invalid value: "
            '"[{\\"verbs\\":1}]": failed to decode overhanging permission claims'
        ),
    ),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", BAD_BINDINGS)
def test_bad_bindings(cluster: TestClient, case: str, size: int) -> None:
    path, body, why = BAD_BINDINGS[case]
    assert refused(cluster, path, larger(body, size)) == why


SHAPELESS: tuple[Any, ...] = (
    {},
    {"reference": None},
    {"reference": {"export": {"name": 5}}},
    {"reference": {"export": {"name": "e", "path": 5}}},
    {"reference": {"export": {}}},
    {"reference": {"export": {"name": "e"}}, "permissionClaims": {"a": "b"}},
    {"reference": {"export": {"name": "e"}}, "permissionClaims": [5]},
    {"reference": {"export": {"name": "e"}}, "permissionClaims": [{"selector": 5}]},
)


@pytest.mark.parametrize("spec", SHAPELESS)
@pytest.mark.parametrize("path", [BINDINGS, OLD_BINDINGS])
def test_a_large_binding_without_a_shape_is_told_the_same(
    cluster: TestClient, path: str, spec: Any
) -> None:
    body = make(path, "b", spec)
    small, large = (cluster.post(path, larger(body, size)) for size in SIZES)
    assert small.status >= 400
    assert (large.status, large.json["message"]) == (small.status, small.json["message"])


@pytest.mark.parametrize("size", SIZES)
def test_a_changed_binding_is_looked_at_again(cluster: TestClient, size: int) -> None:
    cluster.post(EXPORTS, export("e"))
    given = {**binding("b", "e"), "spec": {**binding("b", "e")["spec"]}}
    made = cluster.post(BINDINGS, larger(given, size))
    assert made.status == 201, made
    claims = {"permissionClaims": [accepted("secrets", selector={})]}
    reply = cluster.patch(f"{BINDINGS}/b", {"spec": claims})
    assert reply.status == 403
    assert reply.json["message"].endswith(
        ": [spec.permissionClaims[0].selector: Required value: "
        "either one of matchAll, matchLabels, or matchExpressions must be set]"
    )
    elsewhere = {"spec": {"reference": {"export": {"path": "root:nowhere"}}}}
    reply = cluster.patch(f"{BINDINGS}/b", elsewhere)
    assert reply.status in (403, 422)
    label = {"metadata": {"labels": {"internal.apis.kcp.io/export": None, "a": "b"}}}
    for path in (BINDINGS, OLD_BINDINGS):
        after = cluster.patch(f"{path}/b", label).json["metadata"]["labels"]
        assert after == {**made.json["metadata"]["labels"], "a": "b"}
    kept = {"metadata": {"annotations": {f"{KEPT}acceptable-permission-claims": "{"}}}
    reply = cluster.patch(f"{OLD_BINDINGS}/b", kept)
    assert reply.status == 403
    assert reply.json["message"].endswith("failed to decode overhanging permission claims")


@pytest.mark.parametrize("size", SIZES)
def test_a_binding_is_marked_and_kept(cluster: TestClient, size: int) -> None:
    """Its label says which export it is of, its finalizer keeps it until its objects are gone."""
    cluster.post(EXPORTS, export("e"))
    made = cluster.post(BINDINGS, larger(binding("b", "e"), size)).json["metadata"]
    assert made["finalizers"] == ["apis.kcp.io/apibinding-finalizer"]
    label = made["labels"]["internal.apis.kcp.io/export"]
    assert made["labels"][f"claimed.internal.apis.kcp.io/{label}"]
    spoilt = {"metadata": {"labels": {"internal.apis.kcp.io/export": "x"}, "finalizers": None}}
    after = cluster.patch(f"{BINDINGS}/b", spoilt).json["metadata"]
    assert after["labels"] == made["labels"]
    assert after["finalizers"] == made["finalizers"]


def test_one_cached_resource_for_each_resource(cluster: TestClient) -> None:
    roles = {"group": "rbac.authorization.k8s.io", "version": "v1", "resource": "clusterroles"}
    maps = {"group": "", "version": "v1", "resource": "configmaps"}
    why = refused(cluster, CACHED, make(CACHED, "m", maps))
    assert why == (
        'spec: Invalid value: "configmaps": '
        "Resource referenced in ClusterCachedResource must be cluster-scoped"
    )
    assert cluster.post(CACHED, make(CACHED, "a", roles)).status == 201
    assert "already exists in the" in refused(cluster, CACHED, make(CACHED, "b", roles))
    assert cluster.post(CACHED, make(CACHED, "a", roles)).status == 409
