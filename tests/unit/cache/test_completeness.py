"""When the copies of a ClusterCachedResource count as complete."""

from __future__ import annotations

import pytest

from pykcp.cache import part_marks
from pykcp.cache.completeness import has_all_copies
from pykcp.cache.part_marks import PartMark
from pykcp.cache.scopes import join
from pykcp.cache.server import make_cache
from pykcp.controllers.cache import copy_marks
from pykcp.machinery.resources import CACHED_OBJECTS
from pykcp.storage.memory import MemoryStore

COPIES = "machines.io/instances:f00"


@pytest.mark.parametrize(
    ("shard", "part", "marked", "complete"),
    [
        ("own", None, "", False),  # a new cache
        ("own", None, COPIES, True),
        ("own", None, "machines.io/instances:another", False),  # the identity has changed
        ("alpha", None, "", True),  # a shard of kcp
        ("alpha", PartMark(1, 1, is_complete=True), "", True),  # of an older version
        ("alpha", PartMark(1, 1, is_complete=True, marks_copies=True), "", False),
        ("alpha", PartMark(2, 0, marks_copies=True), COPIES, True),  # it has begun anew
    ],
)
async def test_has_all_copies(
    shard: str, part: PartMark | None, marked: str, complete: bool
) -> None:
    cache = make_cache(MemoryStore())
    place = join(shard, "acme")
    if part is not None:
        at = join(shard, part_marks.CLUSTER)
        await cache.client.create(at, CACHED_OBJECTS, part_marks.mark_object(part))
    if marked:
        mark = copy_marks.mark_object("instances", marked)
        await cache.client.create(place, CACHED_OBJECTS, mark)
    assert has_all_copies(cache.store, "own", place, "instances", COPIES) == complete
