"""From kubectl's own record to the server's: the last-applied annotation."""

# Tables read better unbroken.

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.lastapplied import ANNOTATION
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import StatusError

NOW = "2026-01-01T00:00:00Z"


def config(data: dict[str, str], **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "x"}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def stored(manager: FieldManager, data: dict[str, str], last: str) -> dict[str, Any]:
    """An object that kubectl applied from the client's side."""
    body = config(data, **{ANNOTATION: last})
    owners = manager.on_update(None, body, "kubectl-client-side-apply", NOW)
    return {**body, "metadata": {**body["metadata"], "uid": "u", "managedFields": owners}}


@pytest.fixture
def manager(config_map: Schema) -> FieldManager:
    return FieldManager(config_map, "v1", "ConfigMap", zero={"metadata": {}})


def text(value: Any) -> str:
    return orjson.dumps(value).decode()


def test_what_kubectl_applied_is_its_own(manager: FieldManager) -> None:
    """No conflict with its former self, and the annotation follows."""
    live = stored(manager, {"a": "1", "b": "1"}, text(config({"a": "1", "b": "1"})))
    out = manager.on_apply(live, config({"a": "2<"}), "kubectl", NOW)
    assert out["data"] == {"a": "2<", "b": "1"}
    assert out["metadata"]["annotations"] == {
        ANNOTATION: '{"apiVersion":"v1","data":{"a":"2\\u003c"},"kind":"ConfigMap","metadata":{"name":"x"}}\n'
    }


def test_others_are_not_excused(manager: FieldManager) -> None:
    """Only the manager named kubectl is."""
    live = stored(manager, {"a": "1"}, text(config({"a": "1"})))
    with pytest.raises(StatusError):
        manager.on_apply(live, config({"a": "2"}), "else", NOW)
    out = manager.on_apply(live, config({"b": "2"}), "else", NOW)
    assert out["metadata"]["annotations"] == live["metadata"]["annotations"]


def test_what_was_changed_since_still_conflicts(manager: FieldManager) -> None:
    """Only fields that are as last applied are excused; the rest is what is reported."""
    live = stored(manager, {"a": "1", "b": "changed"}, text(config({"a": "1", "b": "1"})))
    with pytest.raises(StatusError) as caught:
        manager.on_apply(live, config({"a": "2", "b": "2"}), "kubectl", NOW)
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.b'
    )


UNUSABLE = [
    "",
    "{",
    "[]",
    text({"apiVersion": "v1", "data": {"a": "1"}}),
    text(config({"a": "1"}) | {"apiVersion": "v2"}),
    text(config({"a": "1"}) | {"nope": 1}),
]


@pytest.mark.parametrize("last", UNUSABLE)
def test_an_annotation_that_is_no_configuration_excuses_nothing(
    manager: FieldManager, last: str
) -> None:
    """It is as if it were not there."""
    live = stored(manager, {"a": "1"}, last)
    with pytest.raises(StatusError) as caught:
        manager.on_apply(live, config({"a": "2"}), "kubectl", NOW)
    assert caught.value.code == 409


def test_the_annotation_is_not_in_itself(manager: FieldManager) -> None:
    """What kubectl sends of it is left out of what is recorded."""
    live = stored(manager, {"a": "1"}, text(config({"a": "1"})))
    given = config({"a": "1"}, **{ANNOTATION: "mine", "z": "1"})
    out = manager.on_apply(live, given, "kubectl", NOW, force=True)
    record = orjson.loads(out["metadata"]["annotations"][ANNOTATION])
    assert record["metadata"]["annotations"] == {"z": "1"}


def test_an_annotation_that_would_be_too_big_is_dropped(manager: FieldManager) -> None:
    """Annotations have a limit that this one must not break."""
    live = stored(manager, {"a": "1"}, text(config({"a": "1"})))
    out = manager.on_apply(live, config({"a": "x" * 300_000}), "kubectl", NOW)
    assert out["metadata"]["annotations"] == {}


def test_objects_without_the_annotation_get_none(manager: FieldManager) -> None:
    """The server does not start to keep kubectl's record."""
    assert (
        "annotations" not in manager.on_apply(None, config({"a": "1"}), "kubectl", NOW)["metadata"]
    )
