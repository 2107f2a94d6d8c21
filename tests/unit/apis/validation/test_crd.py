"""Changes of custom resource definitions, and what is asked of those who know schemas."""

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.apis.kube import validation
from pykcp.apis.kube.validation.crd.paths import PathProblem, field_at
from pykcp.apis.kube.validation.rules import before_create
from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

CRD = ("apiextensions.k8s.io", "customresourcedefinitions")
SCHEMA: Object = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
}
Created = Callable[..., Any]


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Object:
    schema = more.pop("schema", SCHEMA)
    return {
        "name": name, "served": True, "storage": storage,
        "schema": {"openAPIV3Schema": schema}, **more,
    }  # fmt: skip


BASE: Object = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version()],
    },
}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def established(created: Created) -> Object:
    obj: Object = created(*CRD, BASE, {}).obj
    obj["status"].update(ESTABLISHED)
    return obj


def test_defaults(created: Created) -> None:
    outcome = created(*CRD, BASE, {"status": {"storedVersions": ["v9"]}})
    assert outcome.errors == []
    assert outcome.obj["spec"]["names"] == {
        "plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList",
    }  # fmt: skip
    assert outcome.obj["spec"]["conversion"] == {"strategy": "None"}
    assert outcome.obj["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    assert outcome.obj["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("patch", "errors"),
    [
        ({"spec": {"names": {"shortNames": ["th"]}}}, []),
        ({"metadata": {"labels": {"a": "b"}}}, []),
        (
            {"spec": {"scope": "Cluster"}},
            ['spec.scope: Invalid value: "Cluster": field is immutable'],
        ),
        (
            {"spec": {"group": "other.com"}},
            ['spec.group: Invalid value: "other.com": field is immutable'],
        ),
        (
            {"spec": {"names": {"plural": "others"}}},
            ['spec.names.plural: Invalid value: "others": field is immutable'],
        ),
        (
            {"spec": {"names": {"kind": "Other"}}},
            ['spec.names.kind: Invalid value: "Other": field is immutable'],
        ),
        (
            {"spec": {"preserveUnknownFields": True}},
            [
                (
                    "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
                    "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                )
            ],
        ),
        (
            {"spec": {"versions": [version("v2")]}},
            [
                (
                    'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was '
                    "previously a storage version, and must remain in spec.versions until a storage "
                    "migration ensures no data remains persisted in v1 and removes v1 from "
                    "status.storedVersions"
                )
            ],
        ),
        (
            {"spec": {"versions": [version(schema={"type": "array"})]}},
            [
                "spec.validation.openAPIV3Schema.items: Required value: must be specified",
                (
                    'spec.validation.openAPIV3Schema.type: Invalid value: "array": '
                    "must be object at the root"
                ),
            ],
        ),
        (
            {"metadata": {"finalizers": ["plain"]}},
            [],
        ),
    ],
)
def test_changes_of_an_established_definition(
    created: Created, updated: Created, patch: Object, errors: list[str]
) -> None:
    assert updated(*CRD, established(created), patch).errors == errors


def test_names_may_change_before_they_are_established(created: Created, updated: Created) -> None:
    stored = created(*CRD, BASE, {}).obj
    patch = {"spec": {"scope": "Cluster", "names": {"kind": "Other"}}}
    assert updated(*CRD, stored, patch).errors == []


def test_storage_versions_are_remembered(created: Created, updated: Created) -> None:
    stored = established(created)
    patch = {"spec": {"versions": [version(storage=False), version("v2")]}}
    outcome = updated(*CRD, stored, patch)
    assert outcome.errors == []
    assert outcome.obj["status"]["storedVersions"] == ["v1", "v2"]
    assert outcome.obj["metadata"]["generation"] == 2
    assert updated(*CRD, stored, {"metadata": {"labels": {"a": "b"}}}).obj["metadata"][
        "generation"
    ] == 1  # fmt: skip


def test_the_status_is_for_the_server(created: Created, updated: Created) -> None:
    stored = established(created)
    outcome = updated(*CRD, stored, {"status": {"storedVersions": ["v9"]}})
    assert outcome.obj["status"]["storedVersions"] == ["v1"]
    patch = {"spec": {"scope": "Cluster"}, "status": {"acceptedNames": {"plural": "A"}}}
    outcome = updated(*CRD, stored, patch, "status")
    assert outcome.obj["spec"]["scope"] == "Namespaced"
    assert [error.split(":")[0] for error in outcome.errors] == ["status.acceptedNames.plural"]


def test_what_was_bad_before_may_stay(created: Created, updated: Created) -> None:
    stored = established(created)
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {
            "s": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "object"},
            }
        },
    }
    assert updated(*CRD, stored, {"metadata": {"labels": {"a": "b"}}}).errors == []


def test_new_formats_are_warned_about_once(created: Created, updated: Created) -> None:
    odd = version(schema={"type": "object", "properties": {"x": {"type": "string", "format": "q"}}})
    assert created(*CRD, BASE, {"spec": {"versions": [odd]}}).warnings == [
        'unrecognized format "q"'
    ]
    stored = established(created)
    assert updated(*CRD, stored, {"spec": {"versions": [odd]}}).warnings == [
        'unrecognized format "q"'
    ]
    stored["spec"]["versions"] = [odd]
    assert updated(*CRD, stored, {"metadata": {"labels": {"a": "b"}}}).warnings == []


class Recorder:
    """Schema checks that note what they are asked."""

    def __init__(self) -> None:
        self.values: list[tuple[Any, str]] = []
        self.schemas: list[str] = []

    def value(self, schema: Object, value: Any, path: str) -> list[FieldError]:
        self.values.append((value, path))
        return [invalid(path, value, "bad default")] if value == "bad" else []

    def rules(
        self, schema: Object, path: str, *, stored: frozenset[str], unchanged: bool
    ) -> list[FieldError]:
        self.schemas.append(path)
        return []


@pytest.mark.parametrize(
    ("default", "errors", "judged"),
    [
        ("good", 0, ["spec.validation.openAPIV3Schema"]),
        ("bad", 1, []),
    ],
)
def test_defaults_and_rules_are_judged_by_those_who_know(
    default: str, errors: int, judged: list[str]
) -> None:
    recorder = Recorder()
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": default}}}
    obj: Object = {
        "metadata": {"name": "things.example.com", "uid": "u",
                     "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {**BASE["spec"], "names": {**BASE["spec"]["names"]},
                 "versions": [version(schema=schema)]},
    }  # fmt: skip
    rules = validation.strategy_for(*CRD)
    rules.default(obj)
    found, _ = before_create(rules, obj, validation.Facts(schema_checks=recorder))
    assert len(found) == errors
    assert recorder.values == [(default, "spec.validation.openAPIV3Schema.properties[a].default")]
    assert recorder.schemas == judged


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".", "unexpected end of JSON path"),
        (".spec.b", "does not refer to a valid field"),
        (".spec['a'", "unexpected end of JSON path"),
        (".spec[a]", "expected single quoted string but got a"),
        (".spec['a'.", "expected ] but got ."),
    ],
)
def test_paths_that_lead_nowhere(path: str, message: str) -> None:
    with pytest.raises(PathProblem) as raised:
        field_at(path, SCHEMA)
    assert str(raised.value) == message


def test_paths() -> None:
    assert field_at(".spec.a", SCHEMA).schema == {"type": "string"}
    assert field_at(".spec['a']", SCHEMA).steps == ("spec", "a")
    with pytest.raises(PathProblem, match="array notation is not allowed"):
        field_at(".spec['a']", SCHEMA, allow_brackets=False)
