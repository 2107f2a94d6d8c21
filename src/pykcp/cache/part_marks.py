"""The mark that a shard puts into its part of the cache: whether the part is complete. Pure.

A part is what one shard has published. A cache server that lost its data is filled again by the
shards, and until a shard has finished, a missing object does not mean that it was deleted.
So readers of the cache keep the objects of a shard until its part is marked as complete again.

The mark is a CachedObject in a logical cluster that holds nothing else. `session` is when its
shard began to publish, in milliseconds: of two states of a part, the one with the later session
is the newer one, and within a session the one with the higher revision.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.machinery.resources import CACHED_OBJECTS
from pykcp.types import Object

CLUSTER = "system:cache"
NAME = "part"
_SESSION = "internal.kcp.io/part-session"
_REVISION = "internal.kcp.io/part-revision"
_COMPLETE = "internal.kcp.io/part-complete"
_HOPS = "internal.kcp.io/part-hops"
_MARKS_COPIES = "internal.kcp.io/part-marks-copies"


class PartMark(NamedTuple):
    """States of one part compare by age."""

    session: int
    revision: int
    is_complete: bool = False
    hops: int = 0
    """How many cache servers it has passed on the way here."""
    marks_copies: bool = False
    """Whether its shard also marks the copies of ClusterCachedResources (`copy_marks`)."""


def mark_object(mark: PartMark) -> Object:
    """The mark as an object of the cache."""
    annotations = {_SESSION: str(mark.session), _REVISION: str(mark.revision)}
    if mark.is_complete:
        annotations[_COMPLETE] = "true"
    if mark.hops:
        annotations[_HOPS] = str(mark.hops)
    if mark.marks_copies:
        annotations[_MARKS_COPIES] = "true"
    return {
        "apiVersion": f"{CACHED_OBJECTS.group}/{CACHED_OBJECTS.version}",
        "kind": "CachedObject",
        "metadata": {"name": NAME, "annotations": annotations},
        "spec": {"raw": {}},
    }


def mark_of(obj: Object | None) -> PartMark | None:
    """What an object says of its part; None if it says nothing that can be read."""
    annotations = (obj["metadata"].get("annotations") or {}) if obj else {}
    session, revision = annotations.get(_SESSION, ""), annotations.get(_REVISION, "")
    if not (session.isdecimal() and revision.isdecimal()):
        return None
    hops = annotations.get(_HOPS, "")
    return PartMark(
        int(session),
        int(revision),
        annotations.get(_COMPLETE) == "true",
        int(hops) if hops.isdecimal() else 0,
        annotations.get(_MARKS_COPIES) == "true",
    )


def may_remove(before: Object | None, after: Object | None, known: PartMark | None) -> bool:
    """Whether objects that are missing in a list of a part are gone.

    `before` and `after`: the mark, read before and after the list; `known`: the newest one of
    earlier times. A part without any mark is not written by a shard of this kind (kcp's shards
    leave none): it counts as complete if there has never been a mark.
    """
    if before is None and after is None:
        return known is None
    found = mark_of(after)
    if before is None or after is None or found is None or not found.is_complete:
        return False
    if _identity(before) != _identity(after):
        return False  # the cache was replaced or the shard began again meanwhile
    return known is None or found[:2] >= known[:2]


def _identity(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
