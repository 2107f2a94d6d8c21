"""Definitions of resources: from a cluster, and common to two."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pykcp.machinery.negotiation.resource import (
    ImportedResource,
    columns_of,
    crd_of,
    imported_schema,
    is_protected,
    meet_crds,
    served_subresources,
)
from pykcp.types import Object

ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEPLOYMENTS = ImportedResource(
    "apps", "v1", "deployments", "", "Deployment", True, ("deploy",), ("all",),
    frozenset(("status", "scale")),
)  # fmt: skip


def definition(**fields: str) -> Object:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return crd_of(DEPLOYMENTS, {"type": "object", "properties": properties})


def test_a_crd_of_a_resource() -> None:
    made = definition(a="string")
    assert made["metadata"] == {"name": "deployments.apps"}
    assert made["spec"]["names"] == {
        "plural": "deployments",
        "singular": "deployment",
        "kind": "Deployment",
        "listKind": "DeploymentList",
        "shortNames": ["deploy"],
        "categories": ["all"],
    }
    (version,) = made["spec"]["versions"]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"
    core = crd_of(DEPLOYMENTS._replace(group="", is_namespaced=False), ANY)
    assert core["metadata"]["name"] == "deployments.core"
    assert core["spec"]["scope"] == "Cluster"


@pytest.mark.parametrize(
    ("group", "expected"),
    [("k8s.io", True), ("x.k8s.io", True), ("a.kubernetes.io", True), ("apps", False), ("xk8s.io", False)],
)  # fmt: skip
def test_protected_groups(group: str, expected: bool) -> None:
    assert is_protected(group) is expected
    annotations = crd_of(DEPLOYMENTS._replace(group=group), ANY)["metadata"].get("annotations")
    assert bool(annotations) is expected


@pytest.mark.parametrize(
    ("crd", "expected"),
    [
        ({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}]}}, {"type": "object"}),
        ({"spec": {"versions": [{"name": "v2"}]}}, ANY),
        ({"spec": {"versions": [{"name": "v1"}]}}, ANY),
        ({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}]},
          "status": {"conditions": [{"type": "NonStructuralSchema", "status": "True"}]}}, ANY),
    ],
)  # fmt: skip
def test_schemas_of_crds(crd: Object, expected: Object) -> None:
    assert imported_schema(DEPLOYMENTS, crd, {}) == expected


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (SCALE, {"status", "scale"}),
        ({**SCALE, "labelSelectorPath": ".status.selector"}, {"status", "scale"}),
        ({**SCALE, "specReplicasPath": ".spec.size"}, {"status"}),
        ({**SCALE, "statusReplicasPath": ".status.size"}, {"status"}),
    ],
)  # fmt: skip
def test_scale_is_served_where_replicas_are_as_usual(scale: Object, expected: set[str]) -> None:
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    version = {
        "name": "v1",
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [column],
    }
    crd = {"spec": {"versions": [{"name": "v2"}, version]}}
    assert served_subresources(DEPLOYMENTS, crd) == expected
    assert served_subresources(DEPLOYMENTS, None) == {"status", "scale"}
    assert columns_of(crd, "v1") == [column]
    assert columns_of(crd, "v2") == columns_of(None, "v1") == []


def test_what_two_have_in_common() -> None:
    met = meet_crds(definition(a="string", b="string"), definition(a="string"))
    assert met.is_possible
    (version,) = met.schema["spec"]["versions"]
    assert set(version["schema"]["openAPIV3Schema"]["properties"]) == {"a"}
    assert [str(finding) for finding in met.findings] == [
        "v1.schema.openAPISchema.properties[b]: the property has been removed"
    ]


def changed(path: str, value: Any) -> Object:
    other = copy.deepcopy(definition(a="string"))
    target: Any = other["spec"]
    *parents, last = path.split(".")
    for name in parents:
        target = target[int(name) if name.isdigit() else name]
    target[last] = value
    return other


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("scope", "Cluster", 'spec.scope: scope has been changed (was "Namespaced", now "Cluster")'),
        ("names.kind", "Other", "spec.names.kind: kind has been changed"),
        ("versions.0.name", "v2", "spec.versions: no version is in both"),
    ],
)  # fmt: skip
def test_conflicts(path: str, value: Any, message: str) -> None:
    met = meet_crds(definition(a="string"), changed(path, value))
    assert not met.is_possible
    assert str(met.findings[0]).startswith(message)


def test_subresources_of_both() -> None:
    met = meet_crds(definition(a="string"), changed("versions.0.subresources", {"status": {}}))
    (version,) = met.schema["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert [finding.path for finding in met.findings] == ["v1.subresources.scale"]
