"""CRDs turned into APIResourceSchemas."""

from __future__ import annotations

import json

import pytest

from pykcp.cli.plugins.apis.crd_schema import convert
from pykcp.cli.plugins.apis.crd_types import BadField
from pykcp.cli.plugins.apis.snapshot import decode, documents, to_json
from pykcp.cli.plugins.errors import PluginError


def _crd(schema=None, name="foos.x", **spec):
    version = {"name": "v1", "served": True, "storage": True}
    if schema is not None:
        version["schema"] = {"openAPIV3Schema": schema}
    return {
        "metadata": {"name": name},
        "spec": {
            "group": "x",
            "names": {"plural": "foos", "kind": "Foo"},
            "scope": "Cluster",
            "versions": [version],
            **spec,
        },
    }


def _schema(schema):
    return convert(_crd(schema), "t")["spec"]["versions"][0]["schema"]


def test_what_a_server_fills_in():
    spec = convert(_crd(), "today")["spec"]
    assert spec == {
        "group": "x",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
        "scope": "Cluster",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": None, "subresources": {}}
        ],
        "conversion": {"strategy": "None"},
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"unknown": 1, "type": "object"}, {"type": "object"}),
        ({"description": "", "nullable": False, "required": [], "enum": []}, {}),
        ({"minLength": 0, "x-kubernetes-list-type": "", "not": {}},
         {"minLength": 0, "not": {}, "x-kubernetes-list-type": ""}),
        ({"default": None, "maximum": None}, {}),
        ({"default": {"b": 1, "a": 2}}, {"default": {"a": 2, "b": 1}}),
        ({"maximum": 1.0, "minimum": 0.5}, {"maximum": 1, "minimum": 0.5}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": {"type": "string", "z": 1}},
         {"additionalProperties": {"type": "string"}}),
        ({"dependencies": {"a": ["b"], "c": {"x": 1}}}, {"dependencies": {"a": ["b"], "c": {}}}),
        ({"x-kubernetes-validations": [{"message": "m", "rule": "r", "q": 1}]},
         {"x-kubernetes-validations": [{"rule": "r", "message": "m"}]}),
    ],
)  # fmt: skip
def test_fields_of_schemas(given, kept):
    assert _schema(given) == kept


def test_keys_come_in_the_order_of_the_api():
    given = {"type": "object", "properties": {"b": {}, "a": {}}, "description": "d", "$ref": "r"}
    assert json.dumps(_schema(given)) == (
        '{"$ref": "r", "description": "d", "type": "object", "properties": {"a": {}, "b": {}}}'
    )


def test_webhooks():
    webhook = {
        "clientConfig": {"url": "https://h", "caBundle": "YQ=="},
        "conversionReviewVersions": ["v1"],
    }
    given = _crd(conversion={"strategy": "Webhook", "webhook": webhook})
    assert convert(given, "t")["spec"]["conversion"] == {"strategy": "Webhook", "webhook": webhook}


@pytest.mark.parametrize(
    ("client", "complaint"),
    [
        ({"service": {"name": "a"}}, "webhooks that refer to services are not supported"),
        ({}, "webhooks URL must be set"),
    ],
)
def test_webhooks_that_cannot_be_called(client, complaint):
    given = _crd(conversion={"strategy": "Webhook", "webhook": {"clientConfig": client}})
    with pytest.raises(PluginError, match=complaint):
        convert(given, "t")


def test_bad_names():
    with pytest.raises(PluginError, match=r'^metadata.name: Invalid value: "t.Bad_": a lowercase'):
        convert(_crd(name="Bad_"), "t")


def test_wrong_types():
    with pytest.raises(BadField) as caught:
        _schema({"properties": {"a": {"maxLength": "x"}}})
    assert str(caught.value) == (
        "json: cannot unmarshal string into Go struct field JSONSchemaProps."
        "spec.versions.schema.openAPIV3Schema.properties.maxLength of type int64"
    )


def test_documents():
    assert list(documents(b"---\na: 1\n---\n\n--- \nb: 2")) == [b"a: 1\n", b"b: 2"]
    assert list(documents(b"a: |\n  ---x\n")) == [b"a: |\n  ---x\n"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a: b\n", "Object 'Kind' is missing in 'a: b\n'"),
        (
            b"kind: Foo\napiVersion: v1",
            'no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            b"kind: APIExport\napiVersion: apis.kcp.io/v1alpha1",
            (
                'v1alpha1.APIExport is not suitable for converting to ["apiextensions.k8s.io/v1"] '
                'in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
    ],
)
def test_documents_of_other_kinds(text, complaint):
    with pytest.raises(PluginError) as caught:
        decode(text)
    assert str(caught.value) == complaint


def test_json_is_safe_in_a_page():
    assert to_json({"a": "<b>&é"}) == '{"a":"\\u003cb\\u003e\\u0026é"}\n'
