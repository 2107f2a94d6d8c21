"""Which shard gets which number for its revisions."""

from __future__ import annotations

import pytest

from pykcp.controllers.topology.revision_slots import SLOT_ANNOTATION, missing_slots
from pykcp.types import Object


def shard(name: str, slot: str = "") -> Object:
    annotations = {SLOT_ANNOTATION: slot} if slot else {}
    return {"metadata": {"name": name, "annotations": annotations}}


@pytest.mark.parametrize(
    ("shards", "joined", "expected"),
    [
        ([shard("root")], {"root"}, {}),
        ([shard("root"), shard("a")], {"root", "a"}, {"a": 0, "root": 1}),
        ([shard("root", "0"), shard("a")], {"root", "a"}, {"a": 1}),
        # one that is only announced gets none, and one that is away keeps its own
        ([shard("root"), shard("a"), shard("x")], {"root", "a"}, {"a": 0, "root": 1}),
        ([shard("root", "1"), shard("a"), shard("x", "0")], {"root", "a"}, {"a": 2}),
        ([shard("root"), shard("x")], {"root"}, {}),
    ],
)
def test_slots(shards: list[Object], joined: set[str], expected: dict[str, int]) -> None:
    assert missing_slots(shards, joined) == expected
