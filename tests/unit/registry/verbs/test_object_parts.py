"""Objects of which only the metadata is decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.registry.verbs.object_parts import ObjectParts

MANAGED: list[Any] = [{"manager": "m", "fieldsV1": {"f:data": {"f:ü": {}}}}]


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": {}},
        {"metadata": {"name": "x", "labels": {"a": "ü\n"}}, "spec": {"n": [1, 1.5, None]}},
        {"kind": "K", "metadata": {"managedFields": MANAGED, "name": "x"}, "data": {"a": "\\u"}},
    ],
)
def test_text_is_the_same_object(obj: Any) -> None:
    parts = ObjectParts(json.dumps(obj).encode())
    expected = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    assert parts.metadata == expected
    assert json.loads(parts.text()) == obj


def test_metadata_is_changed_in_place() -> None:
    obj = {"metadata": {"name": "x", "managedFields": MANAGED}, "data": {"a": "1"}}
    parts = ObjectParts(json.dumps(obj).encode())
    parts.metadata["labels"] = {"a": "b"}
    del parts.metadata["name"]
    changed = json.loads(parts.text(kind="ConfigMap", apiVersion="v1"))
    assert changed == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"managedFields": MANAGED, "labels": {"a": "b"}},
        "data": {"a": "1"},
    }
    assert parts.managed_fields is not None
    assert json.loads(parts.managed_fields) == MANAGED


def test_a_type_that_is_there_is_kept() -> None:
    parts = ObjectParts(b'{"kind":"A","apiVersion":"v2","metadata":{}}')
    text = parts.text(kind="B", apiVersion="v1")
    assert json.loads(text) == {"kind": "A", "apiVersion": "v2", "metadata": {}}


@pytest.mark.parametrize(
    ("annotations", "metadata"), [({"b": "2"}, {"annotations": {"b": "2"}}), ({}, {})]
)
def test_other_annotations(annotations: Any, metadata: Any) -> None:
    parts = ObjectParts(b'{"metadata":{"annotations":{"a":"1"}}}')
    assert json.loads(parts.text(annotations)) == {"metadata": metadata}
    assert json.loads(parts.text()) == {"metadata": {"annotations": {"a": "1"}}}
