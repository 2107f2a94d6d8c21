"""Whether the copies of a ClusterCachedResource in the cache are all there."""

from __future__ import annotations

from pykcp.cache import part_marks
from pykcp.cache.scopes import join, split
from pykcp.controllers.cache.copy_marks import MARKS, copies_of
from pykcp.registry.codec import decode
from pykcp.registry.keys import object_key
from pykcp.registry.stored import StoreReader
from pykcp.types import Object


def has_all_copies(store: StoreReader, own_shard: str, place: str, name: str, copies: str) -> bool:
    """`place` and `name` of a ClusterCachedResource; `copies`: what they are in the cache.

    Shards of kcp and of older versions do not mark copies: theirs count as complete.
    """
    mark = _read(store, place, name)
    if mark is not None:
        return copies_of(mark) == copies
    shard = split(place).shard
    if shard == own_shard:
        return False
    part = part_marks.mark_of(_read(store, join(shard, part_marks.CLUSTER), part_marks.NAME))
    return part is None or not part.marks_copies


def _read(store: StoreReader, place: str, name: str) -> Object | None:
    entry = store.get(object_key(f"{MARKS}/", place, "", name))
    return decode(entry.value) if entry is not None else None
