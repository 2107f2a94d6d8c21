"""Descriptions of Kubernetes' kinds for workloads, as OpenAPI publishes them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.apis.kube.workloads import workload_crds
from pykcp.apis.kube.workloads.descriptions import Descriptions, describe, groups, read_group
from pykcp.apis.loader import shared_type
from pykcp.apis.protobuf import message_table
from pykcp.machinery.openapi import v2, v3
from pykcp.machinery.schema.crd import KUBERNETES_KIND, SchemaStore, definition_from_crd
from pykcp.types import Object

SCHEMAS = SchemaStore(shared_type)
DEFINITIONS = [definition_from_crd(crd, SCHEMAS) for crd in workload_crds()]
KINDS = [(definition, version) for definition in DEFINITIONS for version in definition.versions]
LONGEST = 200


def published(definition: Any, version: str) -> tuple[Object, Object]:
    """The schema of a kind without descriptions, and with them."""
    name = f"apis/{definition.group}/{version}" if definition.group else f"api/{version}"
    made = v3.document([definition], name)["components"]["schemas"]
    before = copy.deepcopy(made)
    describe(made, [definition])
    ref = definition.schema(version).ref
    return before[ref], made[ref]


def nodes(json: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Every node of a schema, with its path."""
    yield path, json
    for name, child in json.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        inner = json.get(part)
        if isinstance(inner, dict):
            yield from nodes(inner, f"{path}[]")


@pytest.mark.parametrize(
    ("definition", "version"), KINDS, ids=lambda one: getattr(one, "name", one)
)
def test_every_field_has_a_short_description(definition: Any, version: str) -> None:
    _, described = published(definition, version)
    found = {
        path: node.get("description", "")
        for path, node in nodes(described, definition.kind)
        if not path.endswith("[]") or "properties" in node  # the list itself says what is in it
    }
    assert [path for path, text in found.items() if not text] == []
    assert [text for text in found.values() if len(text) > LONGEST or not text.endswith(".")] == []


@pytest.mark.parametrize(
    ("definition", "version"), KINDS, ids=lambda one: getattr(one, "name", one)
)
def test_nothing_else_changes(definition: Any, version: str) -> None:
    before, after = published(definition, version)
    for _, node in (*nodes(before, ""), *nodes(after, "")):
        node.pop("description", None)
    assert after == before


def test_recurring_types_have_one_place() -> None:
    """A field has the text of its type unless it has one of its own."""
    _, pod = published(*next(kind for kind in KINDS if kind[0].kind == "Pod"))
    spec, status = pod["properties"]["spec"], pod["properties"]["status"]
    assert spec["description"] == "What a pod runs, where it may run and with which rights."
    containers = spec["properties"]["containers"]
    assert containers["description"].startswith("The containers of the pod")
    assert containers["items"]["description"] == "A program that runs in a pod, from an image."
    probe = containers["items"]["properties"]["livenessProbe"]
    assert "stuck" in probe["description"]
    assert "10 by default" in probe["properties"]["periodSeconds"]["description"]
    condition = status["properties"]["conditions"]["items"]["properties"]
    assert condition["status"]["description"] == "Whether it holds: True, False or Unknown."
    assert "PodScheduled" in condition["type"]["description"]


def test_every_text_is_used() -> None:
    """Of messages and fields that exist; files are named after groups."""
    for group in groups():
        table = message_table(group)
        for name, message in read_group(group).items():
            assert name in table, name
            known = Descriptions().fields_of(f"{group}/{name}")
            assert message.fields.keys() <= known.keys(), name
            assert all(known[field].text == text for field, text in message.fields.items())


def test_version_2_is_described_as_far_as_it_goes() -> None:
    made = v2.document(DEFINITIONS)
    describe(made["definitions"], DEFINITIONS)
    pod = made["definitions"]["core.api.k8s.io.v1.Pod"]
    assert pod["description"].startswith("One or more containers")
    assert pod["properties"]["spec"]["description"].startswith("What a pod runs")


def custom(kind: str, schema: Object, annotations: Object) -> Object:
    names = {"plural": "things", "singular": "thing", "kind": kind, "listKind": f"{kind}List"}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    return {
        "metadata": {"name": "things.apps", "annotations": annotations},
        "spec": {"group": "apps", "scope": "Namespaced", "names": names, "versions": [version]},
    }


SPEC: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "string", "description": "My own words."},
        "template": {"type": "array", "items": {"type": "string"}},
        "selector": {"type": "object", "additionalProperties": True},
        "extra": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        ("Deployment", {KUBERNETES_KIND: "true"}, ("My own words.", "The pods to make.", None)),
        ("Deployment", {}, ("My own words.", None, None)),
        ("Unknown", {KUBERNETES_KIND: "true"}, ("My own words.", None, None)),
    ],
)
def test_definitions_of_users(kind: str, annotations: Object, expected: tuple[Any, ...]) -> None:
    """What they say stays, and they may say something else than Kubernetes does."""
    schema = {"type": "object", "properties": {"spec": SPEC}}
    definition = definition_from_crd(custom(kind, schema, annotations), SCHEMAS)
    fields = published(definition, "v1")[1]["properties"]["spec"]["properties"]
    shown = (fields[name].get("description") for name in ("replicas", "template", "extra"))
    assert tuple(shown) == expected
