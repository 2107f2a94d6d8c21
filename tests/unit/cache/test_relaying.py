"""In which direction parts are copied between linked cache servers, and what is done to objects."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.cache.part_marks import PartMark
from pykcp.cache.relaying import Direction, direction, relay_plan, relayed, version_of
from pykcp.controllers.cache.replication_plan import CopyAction
from pykcp.types import Object


@pytest.mark.parametrize(
    ("here", "upstream", "expected"),
    [
        (None, None, Direction.NOWHERE),
        (PartMark(1, 1), None, Direction.UP),
        (None, PartMark(1, 1), Direction.DOWN),
        (PartMark(2, 1, hops=3), PartMark(1, 9), Direction.UP),  # the shard is on this side now
        (PartMark(1, 9), PartMark(2, 1, hops=3), Direction.DOWN),
        (PartMark(1, 1), PartMark(1, 1, hops=1), Direction.UP),
        (PartMark(1, 1, hops=2), PartMark(1, 9, hops=1), Direction.DOWN),
        (PartMark(1, 1, hops=2), PartMark(1, 9, hops=2), Direction.NOWHERE),
    ],
)
def test_parts_flow_away_from_their_shard(
    here: PartMark | None, upstream: PartMark | None, expected: Direction
) -> None:
    assert direction(here, upstream) is expected


def test_copies_count_hops() -> None:
    copy = relayed(PartMark(1, 2, is_complete=True), is_complete=False)
    assert copy == PartMark(1, 2, is_complete=False, hops=1)
    assert relayed(copy, is_complete=True).hops == 2


def obj(version: str = "5", uid: str = "u", resource_version: str = "1", **more: Any) -> Object:
    annotations = {"cache.kcp.io/original-resource-version": version, "kcp.io/cluster": "acme"}
    metadata = {"name": "x", "uid": uid, "resourceVersion": resource_version}
    return {"metadata": {**metadata, "annotations": annotations}, **more}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, CopyAction.NOTHING),
        (None, obj(), CopyAction.DELETE),
        (obj(), None, CopyAction.CREATE),
        (obj(), obj(resource_version="7"), CopyAction.NOTHING),
        (obj("6"), obj("5"), CopyAction.UPDATE),
        (obj(spec={"a": 1}), obj(), CopyAction.UPDATE),
        (obj(uid="v"), obj(), CopyAction.DELETE),
    ],
)
def test_what_is_done_to_a_copy(
    source: Object | None, target: Object | None, expected: CopyAction
) -> None:
    assert relay_plan(source, target).action is expected


def test_what_is_written() -> None:
    created = relay_plan(obj(), None).copy
    assert created is not None
    assert "resourceVersion" not in created["metadata"]
    assert "kcp.io/cluster" not in created["metadata"]["annotations"]
    updated = relay_plan(obj("6", resource_version="3"), obj(resource_version="9")).copy
    assert updated is not None
    assert updated["metadata"]["resourceVersion"] == "9"
    assert version_of(updated) == ("u", "6")
