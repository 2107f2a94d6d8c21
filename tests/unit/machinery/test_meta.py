"""Accessors read what is there and add nothing."""

import pytest

from pykcp.machinery import meta
from pykcp.types import Object

BARE: list[Object] = [{}, {"metadata": None}, {"metadata": {}}]


@pytest.mark.parametrize("obj", BARE)
def test_missing_metadata_has_zero_values(obj: Object) -> None:
    before = repr(obj)
    texts = (
        meta.name, meta.namespace, meta.uid, meta.resource_version, meta.generate_name,
        meta.creation_timestamp, meta.deletion_timestamp, meta.cluster,
    )  # fmt: skip
    assert [accessor(obj) for accessor in texts] == [""] * len(texts)
    assert (meta.labels(obj), meta.annotations(obj)) == ({}, {})
    assert (meta.finalizers(obj), meta.owner_references(obj)) == ([], [])
    assert meta.generation(obj) == 0
    assert not meta.is_deleting(obj)
    assert meta.controller_of(obj) is None
    assert repr(obj) == before


def test_finalizers_come_and_go() -> None:
    obj: Object = {}
    assert meta.add_finalizer(obj, "a")
    assert not meta.add_finalizer(obj, "a")
    assert meta.add_finalizer(obj, "b")
    assert meta.finalizers(obj) == ["a", "b"]
    assert meta.remove_finalizer(obj, "a")
    assert not meta.remove_finalizer(obj, "a")
    assert meta.remove_finalizer(obj, "b")
    assert "finalizers" not in obj["metadata"]


def test_setting_leaves_the_old_mapping_alone() -> None:
    shared = {"a": "1"}
    obj: Object = {"metadata": {"labels": shared, "annotations": shared}}
    meta.set_label(obj, "b", "2")
    meta.set_annotation(obj, "kcp.io/cluster", "root")
    assert shared == {"a": "1"}
    assert meta.labels(obj) == {"a": "1", "b": "2"}
    assert meta.cluster(obj) == "root"


def test_controller() -> None:
    references = [{"name": "a"}, {"name": "b", "controller": True}]
    assert meta.controller_of({"metadata": {"ownerReferences": references}}) is references[1]


def test_times() -> None:
    assert meta.now_rfc3339(1700000000.9) == "2023-11-14T22:13:20Z"
    assert meta.now_micro(1700000000.25) == "2023-11-14T22:13:20.250000Z"
    assert meta.now_micro(0.9999999) == "1970-01-01T00:00:01.000000Z"
    assert meta.parse_rfc3339("2023-11-14T23:13:20+01:00") == 1700000000
    with pytest.raises(ValueError, match="no time zone"):
        meta.parse_rfc3339("2023-11-14T23:13:20")
