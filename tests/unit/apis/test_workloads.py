"""Kubernetes' kinds for workloads as CRDs."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kube.workloads import workload_crds
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.validation import compile_check
from pykcp.types import Object

CRDS = {crd["metadata"]["name"]: crd for crd in workload_crds()}


def node(crd: str, path: str) -> Object:
    found: Any = CRDS[crd]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        found = found["items"] if name == "[]" else found["properties"][name]
    return dict(found)


@pytest.mark.parametrize(
    ("crd", "path", "expected"),
    [
        ("pods.core", "metadata", {"type": "object"}),
        ("pods.core", "spec.nodeName", {"type": "string"}),
        ("pods.core", "spec.terminationGracePeriodSeconds", {"type": "integer", "format": "int64", "default": 30}),
        ("pods.core", "status.startTime", {"type": "string", "format": "date-time", "nullable": True}),
        ("services.core", "spec.ports.[].protocol", {"type": "string", "default": "TCP"}),
        ("deployments.apps", "spec.template.metadata", {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True}),
        ("nodes.core", "status.capacity", {"type": "object", "nullable": True, "additionalProperties": {
            "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
    ],
)  # fmt: skip
def test_fields(crd: str, path: str, expected: Object) -> None:
    assert node(crd, path) == expected


def test_lists_that_are_merged_by_key() -> None:
    containers = node("pods.core", "spec.containers")
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["items"]["required"] == ["name"]
    ports = node("services.core", "spec.ports")
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert ports["items"]["required"] == ["port"]


def test_versions_of_one_kind_are_in_one_crd() -> None:
    versions = CRDS["horizontalpodautoscalers.autoscaling"]["spec"]["versions"]
    assert [(v["name"], v["storage"]) for v in versions] == [("v2", True), ("v1", False)]


@pytest.mark.parametrize(
    ("containers", "is_valid"),
    [([{"name": "a", "image": "b"}], True), ([{"image": "b"}], False)],
)
def test_containers_have_names(containers: Any, is_valid: bool) -> None:
    schema = CRDS["pods.core"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    check = compile_check(from_json(schema))
    assert check({"spec": {"containers": containers}}) is is_valid
