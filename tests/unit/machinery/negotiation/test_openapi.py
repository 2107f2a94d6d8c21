"""OpenAPI models as structural schemas."""

from __future__ import annotations

import os
import pathlib

import orjson
import pytest

from pykcp.machinery.negotiation.meet import meet_all
from pykcp.machinery.negotiation.openapi import (
    Unconvertible,
    kinds_of_models,
    models_of,
    structural_schema,
)
from pykcp.types import Object

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def ref(name: str, version: str = "v3") -> Object:
    return {"$ref": f"#/{'components/schemas' if version == 'v3' else 'definitions'}/{name}"}


def converted(field: Object, **models: Object) -> Object:
    """A field of a kind, as it is written into the kind's schema."""
    kind: Object = {"type": "object", "properties": {"field": field}}
    schema = structural_schema({"Kind": kind, **models}, "Kind")
    found: Object = schema["properties"]["field"]
    return found


PORT: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "format": "int32", "default": 0},
        "protocol": {"type": "string", "default": "TCP"},
    },
}
INT_OR_STRING = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string", "description": "d", "default": ""}, {"type": "string", "description": "d"}),
        ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
        (ref(f"{META}.Time"), {"type": "string", "format": "date-time"}),
        ({"allOf": [ref(f"{META}.Time")], "description": "d"}, {"type": "string", "format": "date-time", "description": "d"}),
        (ref("io.k8s.apimachinery.pkg.api.resource.Quantity", "v2"), INT_OR_STRING),
        ({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}, INT_OR_STRING),
        (ref(f"{META}.ObjectMeta"), {"type": "object", PRESERVE: True}),
        (ref("io.k8s.apimachinery.pkg.runtime.RawExtension"), {"type": "object", PRESERVE: True}),
        ({"type": "object"}, {"type": "object", PRESERVE: True}),
        ({}, {PRESERVE: True}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object", "additionalProperties": {"type": "string"}}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"}, {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
    ],
)  # fmt: skip
def test_fields(field: Object, expected: Object) -> None:
    assert converted(field) == expected


def test_lists_that_are_maps() -> None:
    """The keys of items are required unless they have a default."""
    merged: Object = {
        "type": "array",
        "items": ref("Port"),
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "port",
    }
    found = converted(merged, Port=PORT)
    assert found["x-kubernetes-list-type"] == "map"
    assert found["x-kubernetes-list-map-keys"] == ["port"]
    assert found["items"]["required"] == ["name", "port"]
    typed: Object = {
        "type": "array",
        "items": ref("Port"),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
    }
    found = converted(typed, Port=PORT)
    assert found["items"]["required"] == ["name", "port"]
    assert found["items"]["properties"]["protocol"]["default"] == "TCP"
    # OpenAPI v2 tells no defaults.
    properties = {**PORT["properties"], "protocol": {"type": "string"}}
    assert converted(typed, Port={**PORT, "properties": properties}) == found


def test_the_object_itself() -> None:
    kind: Object = {
        "type": "object",
        "required": ["metadata", "spec"],
        "properties": {"metadata": ref(f"{META}.ObjectMeta"), "spec": {"type": "string"}},
    }
    schema = structural_schema({"Kind": kind}, "Kind")
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["required"] == ["spec"]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"Kind": {"type": "object", "properties": {"a": ref("Kind")}}}, "the type Kind contains itself"),
        ({"Kind": {"type": "object", "properties": {"a": ref("X")}}}, "the type X is not in the document"),
    ],
)  # fmt: skip
def test_what_cannot_be_described(models: dict[str, Object], message: str) -> None:
    with pytest.raises(Unconvertible, match=message):
        structural_schema(models, "Kind")


def test_documents_of_both_versions() -> None:
    kind = {"group": "g", "version": "v1", "kind": "Kind"}
    models: Object = {
        "Kind": {"x-kubernetes-group-version-kind": [kind]},
        "Options": {"x-kubernetes-group-version-kind": [kind, kind]},
        "Part": {},
    }
    for document in ({"definitions": models}, {"components": {"schemas": models}}):
        assert list(kinds_of_models(models_of(document))) == [(("g", "v1", "Kind"), "Kind")]
    assert models_of({}) == {}


DOCUMENTS = [one for one in os.environ.get("PYKCP_OPENAPI_DOCUMENTS", "").split(os.pathsep) if one]


@pytest.mark.slow
@pytest.mark.skipif(not DOCUMENTS, reason="PYKCP_OPENAPI_DOCUMENTS names no OpenAPI documents")
def test_types_of_several_versions_of_kubernetes() -> None:
    """`api/openapi-spec/swagger.json` of its releases: nearly all types are read, and Deployments of
    all releases have much in common.
    """
    deployments = []
    for path in DOCUMENTS:
        models = models_of(orjson.loads(pathlib.Path(path).read_bytes()))
        good, bad = [], []
        for kind, name in kinds_of_models(models):
            if "metadata" not in models[name].get("properties", ()) or kind[2].endswith("List"):
                continue
            try:
                schema = structural_schema(models, name)
            except Unconvertible:
                bad.append(name)
                continue
            good.append(name)
            if kind == ("apps", "v1", "Deployment"):
                deployments.append(schema)
        assert len(good) >= 0.95 * len(good + bad), (path, bad)
    common = meet_all(deployments)
    assert common.is_possible, common.findings
    spec = common.schema["properties"]["spec"]["properties"]
    assert {"replicas", "selector", "strategy", "template"} <= set(spec)
