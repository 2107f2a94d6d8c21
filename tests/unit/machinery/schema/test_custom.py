"""Custom resources. Expected texts were read off Kubernetes' own packages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.apis.catalog import definition_of
from pykcp.apis.loader import shared_type
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.machinery.schema.custom import CustomType, custom_type, rules_blocked
from pykcp.machinery.schema.decode import DecodeError
from pykcp.machinery.schema.openapi_json import from_json, to_json
from pykcp.machinery.status import required
from pykcp.types import Object

META = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def make(spec: Object, **more: Any) -> CustomType:
    root = {"type": "object", "properties": {"spec": spec}, **more}
    return CustomType(from_json(root), META)


def decode(spec: Object, value: Any) -> tuple[Any, list[str]]:
    problems: list[str] = []
    obj = make(spec).decode({"metadata": {"name": "x"}, "spec": value}, problems)
    return obj.get("spec"), problems


def errors(spec: Object, value: Any) -> list[str]:
    return [e.text() for e in make(spec).errors({"spec": value})]


OBJECT = {"type": "object"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("spec", "given", "kept", "dropped"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"a": "x", "b": 1, "c": {"d": 1}},
            {"a": "x"},
            ["spec.b", "spec.c"],
        ),
        (OPEN, {"a": {"b": 1}}, {"a": {"b": 1}}, []),
        (
            {**OPEN, "properties": {"a": {"type": "object"}}},
            {"a": {"b": 1}, "c": {"d": 1}},
            {"a": {}, "c": {"d": 1}},
            ["spec.a.b"],
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            [{"a": "x", "b": 1}, {"c": 1}],
            [{"a": "x"}, {}],
            ["spec[0].b", "spec[1].c"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "object"}},
            {"k": {"a": 1}},
            {"k": {}},
            ["spec.k.a"],
        ),
        (
            {"type": "object", "additionalProperties": True},
            {"k": {"a": 1}},
            {"k": {}},
            ["spec.k.a"],
        ),
        ({"type": "object", "properties": {"n": {"type": "number"}}}, {"n": 2.0}, {"n": 2}, []),
    ],
)
def test_pruning(spec: Object, given: Any, kept: Any, dropped: list[str]) -> None:
    value, problems = decode(spec, given)
    assert value == kept
    assert problems == [f'unknown field "{path}"' for path in dropped]


def test_unknown_metadata_and_top_level_fields() -> None:
    problems: list[str] = []
    obj = make(OBJECT).decode(
        {"kind": "K", "apiVersion": "v1", "metadata": {"name": "x", "foo": 1}, "zz": 1, "aa": 1},
        problems,
    )
    assert obj == {"kind": "K", "apiVersion": "v1", "metadata": {"name": "x"}}
    assert problems == [
        'unknown field "metadata.foo"',
        'unknown field "aa"',
        'unknown field "zz"',
    ]


def test_duplicate_fields_come_first() -> None:
    problems: list[str] = []
    raw = b'{"metadata":{},"spec":{"a":1,"a":2}}'
    make(OBJECT).decode(orjson.loads(raw), problems, raw)
    assert problems == ['duplicate field "spec.a"', 'unknown field "spec.a"']


@pytest.mark.parametrize(
    ("spec", "given", "completed"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
            {},
            {"a": "x"},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
            {"a": None},
            {"a": "x"},
        ),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": None}, {}),
        (
            {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
            {"a": None},
            {"a": None},
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "default": {},
                        "properties": {"b": {"type": "integer", "default": 3}},
                    }
                },
            },
            {},
            {"a": {"b": 3}},
        ),
        (
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"a": {"type": "boolean", "default": False}},
                },
            },
            [{}, {"a": True}],
            [{"a": False}, {"a": True}],
        ),
    ],
)
def test_defaulting(spec: Object, given: Any, completed: Any) -> None:
    assert decode(spec, given) == (completed, [])


def test_defaults_are_not_shared_between_objects() -> None:
    kind = make({"type": "object", "properties": {"a": {"type": "object", "default": {}}}})
    one = kind.decode({"spec": {}}, [])
    two = kind.decode({"spec": {}}, [])
    assert one["spec"]["a"] is not two["spec"]["a"]


def test_stored_objects_are_read_by_the_schema_of_today() -> None:
    kind = make({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}})
    assert kind.read({"spec": {"gone": 1}}) == {"spec": {"a": "x"}}


def test_metadata_of_the_wrong_type() -> None:
    with pytest.raises(DecodeError) as caught:
        make(OBJECT).decode({"metadata": {"name": 5}}, [])
    assert str(caught.value) == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
    )


EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def test_embedded_objects_have_metadata_like_all_others() -> None:
    value, problems = decode(
        EMBEDDED, {"kind": "A", "metadata": {"name": "x", "foo": 1}, "more": 1}
    )
    assert value == {"kind": "A", "metadata": {"name": "x"}, "more": 1}
    assert problems == ['unknown field "spec.metadata.foo"']
    with pytest.raises(DecodeError, match=r"spec\.kind: Invalid value: 5: must be a string"):
        decode(EMBEDDED, {"kind": 5})


def test_embedded_objects_are_validated_as_objects() -> None:
    seen: list[tuple[Object, bool, str]] = []

    def check(metadata: Object, namespaced: bool, path: str) -> list[Any]:
        seen.append((metadata, namespaced, path))
        return [required(f"{path}.x")]

    obj = {"spec": {"kind": "foo_bar", "metadata": {"namespace": "n"}}}
    found = [e.text() for e in make(EMBEDDED).embedded_errors(obj, check)]
    assert found[0] == "spec.apiVersion: Required value"
    assert found[1].startswith(
        'spec.kind: Invalid value: "foo_bar": may have mixed case, but should otherwise match: '
    )
    assert found[2] == "spec.metadata.x: Required value"
    assert seen == [({"namespace": "n", "name": "fakename"}, True, ".metadata")]


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("spec", "value", "texts"),
    [
        (
            STRING,
            5,
            ['spec: Invalid value: "integer": spec in body must be of type string: "integer"'],
        ),
        (
            STRING,
            None,
            ['spec: Invalid value: "null": spec in body must be of type string: "null"'],
        ),
        ({**STRING, "nullable": True}, None, []),
        ({**STRING, "maxLength": 1}, "ab", ["spec: Too long: may not be more than 1 byte"]),
        (
            {**STRING, "minLength": 3},
            "ab",
            ['spec: Invalid value: "ab": spec in body should be at least 3 chars long'],
        ),
        (
            {**STRING, "pattern": "^a"},
            "b",
            ["spec: Invalid value: \"b\": spec in body should match '^a'"],
        ),
        (
            {**STRING, "enum": ["a", "b"]},
            "c",
            ['spec: Unsupported value: "c": supported values: "a", "b"'],
        ),
        (
            {**STRING, "format": "date-time"},
            "x",
            ['spec: Invalid value: "x": spec in body must be of type date-time: "x"'],
        ),
        (
            {"type": "integer", "maximum": 5},
            7,
            ["spec: Invalid value: 7: spec in body should be less than or equal to 5"],
        ),
        (
            {"type": "number", "minimum": 0.5, "exclusiveMinimum": True},
            0.5,
            ["spec: Invalid value: 0.5: spec in body should be greater than 0.5"],
        ),
        (
            {"type": "integer", "format": "int32"},
            10**10,
            [
                '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec'
            ],
        ),
        (
            {"type": "integer", "multipleOf": 2},
            3,
            ["spec: Invalid value: 3: spec in body should be a multiple of 2"],
        ),
        (
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", 1],
            [
                (
                    'spec[1]: Invalid value: "integer": '
                    'spec[1] in body must be of type string: "integer"'
                ),
                "spec: Too many: 2: must have at most 1 item",
            ],
        ),
        ({"type": "object", "required": ["a"]}, {}, ["spec.a: Required value"]),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                (
                    '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). '
                    "Found none valid"
                ),
                "spec.a: Required value",
            ],
        ),
        (
            {**STRING, "not": {"pattern": "^a"}},
            "a",
            ['<nil>: Invalid value: "": "spec" must not validate the schema (not)'],
        ),
        ({"x-kubernetes-int-or-string": True}, "a", []),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            [
                (
                    'spec: Invalid value: "boolean": '
                    'spec in body must be of type integer,string: "boolean"'
                )
            ],
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            ["a", "b", "a", "a"],
            ['spec[2]: Duplicate value: "a"'],
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": STRING}},
            },
            [{"k": "a"}, {"k": "a"}],
            ['spec[1]: Duplicate value: {"k":"a"}'],
        ),
    ],
)
def test_validation(spec: Object, value: Any, texts: list[str]) -> None:
    assert errors(spec, value) == texts


def test_an_integer_beyond_64_bits_is_a_float_in_messages() -> None:
    found = errors({"type": "integer", "format": "int32"}, 1 << 63)
    assert 'spec in body must be of type int32: "float64"' in found[0]


def test_what_did_not_change_may_stay_wrong() -> None:
    spec = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 1},
            "b": {"type": "string", "maxLength": 1},
        },
    }
    kind = make(spec)
    old = {"spec": {"a": "long", "b": "x"}}
    assert kind.errors({"spec": {"a": "long", "b": "y"}}, old) == []
    changed = kind.errors({"spec": {"a": "longer", "b": "x"}}, old)
    assert [e.text() for e in changed] == ["spec.a: Too long: may not be more than 1 byte"]


def test_status_is_validated_alone() -> None:
    root = {
        "type": "object",
        "properties": {"spec": STRING, "status": {"type": "object", "properties": {"a": STRING}}},
    }
    kind = CustomType(from_json(root), META)
    found = kind.status_errors({"spec": 5, "status": {"a": 1}}, {"spec": 5})
    assert [e.text() for e in found] == [
        'status.a: Invalid value: "integer": a in body must be of type string: "integer"'
    ]


def test_rules_are_not_run_over_what_is_not_well_formed() -> None:
    assert rules_blocked([]) is None
    blocked = rules_blocked([required("spec.a")])
    assert blocked is not None
    assert blocked.text().startswith("<nil>: Invalid value: null: some validation rules were not")


CRD: Object = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": False,
                "deprecated": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            },
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "metadata": {
                                "type": "object",
                                "properties": {"name": {"maxLength": 3}},
                            },
                            "spec": {"type": "object", "properties": {"color": STRING}},
                        },
                    }
                },
            },
        ],
    }
}


def test_a_definition_of_a_crd() -> None:
    definition = definition_from_crd(CRD, SchemaStore(shared_type))
    assert definition.versions == ("v1", "v1beta1")
    assert definition.storage_version == "v1"
    assert (definition.singular, definition.list_kind) == ("widget", "WidgetList")
    assert not definition.native
    assert [s.name for s in definition.subresources_of("v1")] == ["status", "scale"]
    assert definition.subresources_of("v1beta1") == ()
    assert definition.selectable_fields == {"spec.color"}
    assert [c.name for c in definition.columns("v1")] == ["Name", "Color"]
    assert [c.name for c in definition.columns("v1beta1")] == ["Name", "Age"]
    warning = definition.version("v1beta1").deprecation_warning
    assert warning == "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"
    schema = definition.schema("v1")
    assert schema.ref == "com.example.v1.Widget"
    assert {"apiVersion", "kind", "metadata", "spec"} == set(schema.properties)


def test_equal_schemas_are_shared() -> None:
    store = SchemaStore(shared_type)
    one, two = definition_from_crd(CRD, store), definition_from_crd(CRD, store, origin="other")
    assert one.schema("v1") is two.schema("v1")
    assert one.storage_version_hash != two.storage_version_hash
    assert custom_type(one.schema("v1"), META) is custom_type(two.schema("v1"), META)


def test_restrictions_on_names_are_validated() -> None:
    definition = definition_from_crd(CRD, SchemaStore(shared_type))
    kind = custom_type(definition.schema("v1"), META)
    found = kind.errors({"metadata": {"name": "toolong"}})
    assert [e.text() for e in found] == ["metadata.name: Too long: may not be more than 3 bytes"]
    clusters = definition_of("core.kcp.io", "logicalclusters").schema("v1alpha1")
    found = custom_type(clusters, META).errors({"metadata": {"name": "other"}, "spec": {}})
    assert [e.text() for e in found] == [
        'metadata.name: Unsupported value: "other": supported values: "cluster"'
    ]


def test_schemas_survive_a_round_trip() -> None:
    json = CRD["spec"]["versions"][1]["schema"]["openAPIV3Schema"]
    assert to_json(from_json(json), None) == json


def test_what_is_nested_too_deeply_to_be_stored_is_refused() -> None:
    raw = b'{"spec":' + b'{"a":' * 300 + b"1" + b"}" * 301
    with pytest.raises(DecodeError, match="exceeded max depth"):
        make(OPEN).decode(orjson.loads(raw), [], raw)
