"""When objects that are missing in a part of the cache are gone."""

from __future__ import annotations

import pytest

from pykcp.cache.part_marks import PartMark, mark_object, mark_of, may_remove
from pykcp.types import Object


def mark(
    session: int = 5,
    revision: int = 9,
    *,
    complete: bool = True,
    uid: str = "a",
    version: str = "1",
) -> Object:
    made = mark_object(PartMark(session, revision, complete))
    made["metadata"] |= {"uid": uid, "resourceVersion": version}
    return made


@pytest.mark.parametrize("state", [PartMark(1, 2), PartMark(3, 4, is_complete=True)])
def test_marks_are_read_as_written(state: PartMark) -> None:
    assert mark_of(mark_object(state)) == state


@pytest.mark.parametrize(
    "obj",
    [
        None,
        {"metadata": {}},
        {"metadata": {"annotations": {"internal.kcp.io/part-session": "x"}}},
        {"metadata": {"annotations": {"internal.kcp.io/part-session": "1"}}},
    ],
)
def test_other_objects_are_no_marks(obj: Object | None) -> None:
    assert mark_of(obj) is None


@pytest.mark.parametrize(
    ("before", "after", "known", "expected"),
    [
        (None, None, None, True),  # shards that leave no marks
        (None, None, PartMark(1, 1), False),  # the cache was wiped
        (None, mark(), None, False),  # filled while the part was read
        (mark(), None, None, False),  # wiped while the part was read
        (mark(), mark(), None, True),
        (mark(complete=False), mark(complete=False), None, False),
        (mark(complete=False), mark(version="2"), None, False),
        (mark(), mark(uid="b"), None, False),
        (mark(), mark(version="2"), None, False),
        (mark(), mark(), PartMark(5, 9), True),
        (mark(), mark(), PartMark(4, 20), True),  # a later session
        (mark(), mark(), PartMark(5, 10), False),  # an older state of the cache
        (mark(), mark(), PartMark(6, 1), False),
    ],
)
def test_when_missing_objects_are_gone(
    before: Object | None, after: Object | None, known: PartMark | None, expected: bool
) -> None:
    assert may_remove(before, after, known) is expected
