"""The shards of an installation, as their Shard objects describe them.

A shard has a Shard object in `system:shard`, which it keeps itself, and one in `root`, where
administrators label and cordon it. The one in `root` counts; shards that root does not know
(yet) are known by their own.
"""

from __future__ import annotations

from pykcp.apis.kcp.shard_load import REGISTERED, ShardLoad, load_of
from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, limit_of
from pykcp.machinery.kcp.clusters import ROOT, SYSTEM_SHARD
from pykcp.machinery.resources import SHARDS
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object


class KnownShards:
    def __init__(self, lookup: ObjectLookup) -> None:
        self._lookup = lookup

    def get(self, name: str) -> Object | None:
        """The Shard of a name; shared with other callers."""
        found = self._lookup.get(SHARDS, ROOT, name)
        return found if found is not None else self._lookup.get(SHARDS, SYSTEM_SHARD, name)

    def hard_limit(self, name: str) -> int | None:
        """How many logical clusters a shard may have; None: any number."""
        shard = self.get(name)
        return limit_of(shard, HARD_LIMIT_ANNOTATION) if shard is not None else None

    def load(self, name: str) -> ShardLoad | None:
        """What a shard last reported of itself; None if it never did."""
        own = self._lookup.get(SHARDS, SYSTEM_SHARD, name)
        return load_of(own) if own is not None else None

    def present(self) -> list[Object]:
        """Those that nobody has removed from root, by name."""
        known = {_name(shard) for shard in self._lookup.all(SHARDS, ROOT)}
        if not known:
            return self.all()  # nothing of root is known here yet
        return [one for one in self.all() if _name(one) in known or not self._has_joined(one)]

    def is_present(self, name: str) -> bool:
        return any(_name(shard) == name for shard in self.present())

    def _has_joined(self, shard: Object) -> bool:
        own = self._lookup.get(SHARDS, SYSTEM_SHARD, _name(shard)) or shard
        return REGISTERED in (own["metadata"].get("annotations") or {})

    def all(self) -> list[Object]:
        """Every shard once, by name, removed ones that still run included."""
        found = {_name(shard): shard for shard in self._lookup.all(SHARDS, SYSTEM_SHARD)}
        replica = self._lookup.replica
        if replica is not None:
            found |= {_name(shard): shard for shard in replica.all(SHARDS, SYSTEM_SHARD)}
        found |= {_name(shard): shard for shard in self._lookup.all(SHARDS, ROOT)}
        return [found[name] for name in sorted(found)]


def _name(shard: Object) -> str:
    name: str = shard["metadata"]["name"]
    return name
