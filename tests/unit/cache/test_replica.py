"""Objects of other shards, in a store with the layout of a cache server."""

from __future__ import annotations

from typing import Any

from pykcp.cache.replica import CacheReplica
from pykcp.cache.scopes import join
from pykcp.cache.server import Cache, make_cache
from pykcp.machinery.resources import API_EXPORTS
from pykcp.storage.memory import MemoryStore


async def publish(cache: Cache, shard: str, cluster: str, name: str, version: int) -> None:
    annotations = {
        "kcp.io/shard": shard,
        "cache.kcp.io/original-resource-version": str(version),
    }
    obj: dict[str, Any] = {"metadata": {"name": name, "annotations": annotations}}
    await cache.client.create(join(shard, cluster), API_EXPORTS, {**obj, "spec": {"of": version}})


async def test_the_newest_of_several_shards_counts() -> None:
    """The logical cluster has moved from `alpha`, which is away and has not removed its copy."""
    cache = make_cache(MemoryStore())
    for shard, version in (("alpha", 5), ("beta", 9), ("own", 20)):
        await publish(cache, shard, "acme", "cowboys", version)
    await publish(cache, "alpha", "acme", "horses", 3)
    replica = CacheReplica(cache.store, "own")
    found = replica.get(API_EXPORTS, "acme", "cowboys")
    assert found is not None
    assert found["spec"] == {"of": 9}
    for cluster in ("acme", "*"):
        versions = sorted(obj["spec"]["of"] for obj in replica.all(API_EXPORTS, cluster))
        assert versions == [3, 9]
