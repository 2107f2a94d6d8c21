"""Exports and bindings in two versions: there and back, and what is seen on the way."""

from __future__ import annotations

import orjson
import pytest

from pykcp.apis.kcp import conversion, round_trip
from pykcp.types import Object

ALL: Object = {"matchAll": True}
BY_LABEL: Object = {"matchLabels": {"test": "label"}}
BY_EXPRESSION: Object = {
    "matchExpressions": [{"key": "test", "operator": "In", "values": ["expression"]}]
}
REFERENCE: Object = {"export": {"path": "foo", "name": "bar"}}
CRD: Object = {"name": "foo", "group": "bar", "schema": "v1.foo.bar", "storage": {"crd": {}}}
CORE: Object = {
    "name": "services",
    "group": "",
    "schema": "v1.services.core",
    "storage": {"crd": {}},
}
VIRTUAL: Object = {
    "name": "foo",
    "group": "bar",
    "schema": "v1.foo.bar",
    "storage": {
        "virtual": {
            "reference": {"apiGroup": "example.com", "kind": "MySlice", "name": "my"},
            "identityHash": "123abc",
        }
    },
}
SELECTED: Object = {"resourceSelector": [{"name": "test", "namespace": "default"}]}


def obj(
    spec: Object, status: Object | None = None, annotations: dict[str, str] | None = None
) -> Object:
    metadata: Object = {"name": "x"}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def claim(**more: object) -> Object:
    return {"resource": "configmaps", **more}


NEW_EXPORTS = [
    {},
    {"resources": [CRD]},
    {"resources": [CRD, CORE]},
    {"resources": [CRD], "permissionClaims": [claim(verbs=["get"])]},
    {"resources": [CRD], "permissionClaims": [claim(verbs=["*"])]},
    {"resources": [VIRTUAL], "permissionClaims": [claim(verbs=["get"], identityHash="x")]},
    {"resources": [CRD, VIRTUAL]},
    {"permissionClaims": [claim(verbs=["get", "list"], defaultSelector=BY_LABEL)]},
    {"permissionClaims": [claim(verbs=["*"], defaultSelector=BY_EXPRESSION)]},
    {"identity": {"secretRef": {"name": "n"}}, "maximalPermissionPolicy": {"local": {}}},
]
OLD_EXPORTS = [
    {},
    {"latestResourceSchemas": ["v1.foo.org", "v1.bar.example.org", "v1.services.core"]},
    {"permissionClaims": [claim(all=True)]},
    {"permissionClaims": [claim(**SELECTED), {"group": "a", "resource": "b", "all": True}]},
]
NEW_BINDINGS = [
    {},
    {"reference": REFERENCE},
    *(
        {"permissionClaims": [claim(verbs=verbs, selector=selector, state="Accepted")]}
        for verbs in (["get"], ["*"])
        for selector in (ALL, BY_LABEL, BY_EXPRESSION)
    ),
]
OLD_BINDINGS = [
    {},
    {"reference": REFERENCE},
    {"permissionClaims": [claim(all=True, state="Accepted")]},
    {"permissionClaims": [claim(**SELECTED, state="Rejected")]},
]
NEW_STATUSES = [
    {"phase": "Bound", "exportPermissionClaims": [claim(verbs=["get"])]},
    {"exportPermissionClaims": [claim(verbs=["*"], defaultSelector=BY_LABEL)]},
    {"appliedPermissionClaims": [claim(verbs=["get"], selector=ALL)]},
    {"appliedPermissionClaims": [claim(verbs=["*"], selector=BY_LABEL)]},
]
OLD_STATUSES = [
    {"appliedPermissionClaims": [claim(all=True)], "exportPermissionClaims": [claim(all=True)]},
    {"appliedPermissionClaims": [claim(**SELECTED)], "exportPermissionClaims": [claim(**SELECTED)]},
]


def _without_memory(found: Object) -> Object:
    """Without what the older version leaves behind for its own return."""
    annotations = found["metadata"].pop("annotations", {})
    rest = {name: text for name, text in annotations.items() if "/v1alpha1-" not in name}
    if rest:
        found["metadata"]["annotations"] = rest
    return found


@pytest.mark.parametrize("spec", NEW_EXPORTS)
def test_a_new_export_survives_the_old_version(spec: Object) -> None:
    old = conversion.export_to_v1alpha1(obj(spec))
    assert _without_memory(conversion.export_to_v1alpha2(old)) == obj(spec)


@pytest.mark.parametrize("spec", OLD_EXPORTS)
def test_an_old_export_survives_the_new_version(spec: Object) -> None:
    new = conversion.export_to_v1alpha2(obj(spec))
    assert conversion.export_to_v1alpha1(new) == obj(spec)


@pytest.mark.parametrize("spec", NEW_BINDINGS)
def test_a_new_binding_survives_the_old_version(spec: Object) -> None:
    old = conversion.binding_to_v1alpha1(obj(spec))
    assert _without_memory(conversion.binding_to_v1alpha2(old)) == obj(spec)


@pytest.mark.parametrize("spec", OLD_BINDINGS)
def test_an_old_binding_survives_the_new_version(spec: Object) -> None:
    new = conversion.binding_to_v1alpha2(obj(spec))
    assert conversion.binding_to_v1alpha1(new) == obj(spec)


@pytest.mark.parametrize("status", NEW_STATUSES)
def test_a_new_status_survives_the_old_version(status: Object) -> None:
    given = obj({"reference": REFERENCE}, status)
    old = conversion.binding_to_v1alpha1(given)
    assert _without_memory(conversion.binding_to_v1alpha2(old)) == given


@pytest.mark.parametrize("status", OLD_STATUSES)
def test_an_old_status_survives_the_new_version(status: Object) -> None:
    given = obj({"reference": REFERENCE}, status)
    assert conversion.binding_to_v1alpha1(conversion.binding_to_v1alpha2(given)) == given


def test_how_a_new_export_looks_to_old_clients() -> None:
    spec = {"resources": [CRD, VIRTUAL], "permissionClaims": [claim(verbs=["get"], group="")]}
    assert conversion.export_to_v1alpha1(obj(spec)) == {
        "metadata": {
            "name": "x",
            "annotations": {
                round_trip.RESOURCE_SCHEMAS: orjson.dumps([VIRTUAL]).decode(),
                round_trip.PERMISSION_CLAIMS: '[{"resource":"configmaps","verbs":["get"]}]',
            },
        },
        "spec": {"latestResourceSchemas": ["v1.foo.bar"], "permissionClaims": [claim()]},
        "status": {},
    }


def test_how_an_old_binding_looks_to_new_clients() -> None:
    given = obj({"permissionClaims": [claim(**SELECTED, state="Accepted")]})
    kept = (
        '[{"resource":"configmaps","resourceSelector":[{"name":"test","namespace":"default"}],'
        '"state":"Accepted"}]'
    )
    assert conversion.binding_to_v1alpha2(given) == obj(
        {"permissionClaims": [claim(verbs=["*"], selector=ALL, state="Accepted")]},
        annotations={round_trip.OLD_CLAIMS: kept},
    )


def test_a_claim_that_is_gone_leaves_nothing_behind() -> None:
    given = obj(
        {}, annotations={round_trip.PERMISSION_CLAIMS: '[{"resource":"secrets","verbs":["get"]}]'}
    )
    assert conversion.export_to_v1alpha2(given) == obj({})


@pytest.mark.parametrize(
    "text", ["{", "{}", '["x"]', '[{"verbs":"get"}]', '[{"selector":{"matchLabels":{"a":1}}}]']
)
def test_nonsense_in_annotations_is_nothing(text: str) -> None:
    with pytest.raises(round_trip.BadAnnotation):
        round_trip.read_annotation(round_trip.PERMISSION_CLAIMS, text)
    given = obj({"resources": [CRD]}, annotations={round_trip.OLD_CLAIMS: text})
    assert conversion.export_to_v1alpha1(given) == obj({"latestResourceSchemas": ["v1.foo.bar"]})


def test_a_schema_must_say_of_which_resource_it_is() -> None:
    with pytest.raises(
        conversion.BadSchemaName, match=r'invalid schema "a\.b": must have at least'
    ):
        conversion.export_to_v1alpha2(obj({"latestResourceSchemas": ["a.b"]}))


def test_the_argument_is_left_alone() -> None:
    given = obj({"resources": [VIRTUAL], "permissionClaims": [claim(verbs=["get"])]})
    before = orjson.dumps(given)
    conversion.export_to_v1alpha1(given)
    assert orjson.dumps(given) == before
