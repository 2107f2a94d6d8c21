"""What two cache servers that are linked do about a part, and about an object of it. Pure.

Every part has one writer, its shard. So of two copies of a part the newer one is right, and of
two equally new ones the one that is nearer to the shard: there is nothing to agree on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykcp.cache.part_marks import PartMark
from pykcp.controllers.cache.replication_plan import ORIGINAL_VERSION, CopyAction
from pykcp.registry.codec import CLUSTER_ANNOTATION
from pykcp.types import Object

_OF_ONE_SERVER = ("resourceVersion", "selfLink")


class Direction(Enum):
    """Where a part is copied."""

    NOWHERE = "nowhere"
    UP = "up"
    DOWN = "down"


def direction(here: PartMark | None, upstream: PartMark | None) -> Direction:
    if here is None and upstream is None:
        return Direction.NOWHERE
    if upstream is None:
        return Direction.UP
    if here is None:
        return Direction.DOWN
    if here.session != upstream.session:
        return Direction.UP if here.session > upstream.session else Direction.DOWN
    if here.hops == upstream.hops:
        return Direction.NOWHERE
    return Direction.UP if here.hops < upstream.hops else Direction.DOWN


def relayed(mark: PartMark, *, is_complete: bool) -> PartMark:
    """The mark of a copy of a part."""
    return mark._replace(is_complete=is_complete, hops=mark.hops + 1)


class RelayPlan(NamedTuple):
    action: CopyAction
    copy: Object | None = None
    """What to write."""


def relay_plan(source: Object | None, target: Object | None) -> RelayPlan:
    """What is to be done to the target's copy of an object."""
    if source is None:
        return RelayPlan(CopyAction.NOTHING if target is None else CopyAction.DELETE)
    copy = _copy(source)
    if target is None:
        return RelayPlan(CopyAction.CREATE, copy)
    if source["metadata"].get("uid") != target["metadata"].get("uid"):
        return RelayPlan(CopyAction.DELETE)  # another object of that name, which is copied next
    if copy == _copy(target):
        return RelayPlan(CopyAction.NOTHING)
    copy["metadata"]["resourceVersion"] = target["metadata"]["resourceVersion"]
    return RelayPlan(CopyAction.UPDATE, copy)


def _copy(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _OF_ONE_SERVER}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(CLUSTER_ANNOTATION, None)
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def version_of(obj: Object) -> tuple[str, str]:
    """By which two copies are compared without reading them whole: uid and original version."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return metadata.get("uid", ""), annotations.get(ORIGINAL_VERSION, "")
