"""Objects that are refused because of their names: they would take what belongs to others. Pure.

Names of Secrets have no prefix for the kind, as in kcp's operator, so a Shard and a
VirtualWorkspace of one name would write the same Secrets in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykcp.programs.operator.records import Records
from pykcp.types import Object

ObjectId = tuple[str, str]
"""Kind and name."""

_KINDS = ("RootShard", "Shard", "CacheServer", "VirtualWorkspace")
"""Kinds with certificates called `<name>-server`, in the order in which they are kept."""
ROOT_NAME = "root"
"""The name of every root shard inside of kcp, whatever its RootShard is called."""


class Refusal(NamedTuple):
    """Reason and message of the condition."""

    reason: str
    message: str


def refusals(objects: Mapping[ObjectId, Object], records: Records) -> dict[ObjectId, Refusal]:
    """Objects that must not be configured."""
    refused: dict[ObjectId, Refusal] = {}
    if ("Shard", ROOT_NAME) in objects:
        why = 'a Shard cannot be called "root": a shard of this name is a root shard'
        refused["Shard", ROOT_NAME] = Refusal("InvalidName", why)
    holders = {(one.owner.kind, one.owner.name) for one in records if one.owner is not None}
    by_name: dict[str, list[ObjectId]] = {}
    for key in objects:
        if key[0] in _KINDS and key not in refused:
            by_name.setdefault(key[1], []).append(key)
    for same in by_name.values():
        refused |= _losers(same, objects, holders)
    return refused


def _losers(
    same: Iterable[ObjectId], objects: Mapping[ObjectId, Object], holders: set[ObjectId]
) -> dict[ObjectId, Refusal]:
    """All but the first: the oldest one, or the one that has Secrets already."""

    def rank(key: ObjectId) -> tuple[str, bool, int]:
        created = str(objects[key]["metadata"].get("creationTimestamp") or "")
        return created, key not in holders, _KINDS.index(key[0])

    first, *others = sorted(same, key=rank)
    why = f'{first[0]} "{first[1]}" has this name: the Secrets of both would have the same names'
    return {key: Refusal("NameConflict", why) for key in others}
