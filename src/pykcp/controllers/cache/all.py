"""Builds the controllers that use the cache."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.clients.interface import Client, Lister
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.cache import cached_resources, cached_slices, replicate_marking
from pykcp.controllers.cache.cached_resources import CachedResources
from pykcp.controllers.cache.cached_slices import CachedSlices
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.cache.replicate_marking import ReplicateMarking
from pykcp.controllers.cache.replication import Replication
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Timestamps
from pykcp.registry.lookup import ObjectLookup

CACHE_APIS = "CacheAPIs"
"""The gate of what users can put into the cache themselves."""


def make(
    *,
    lister: Lister,
    directory: Directory,
    lookup: ObjectLookup,
    client: Callable[[str], Client],
    published: PublishedCopies,
    shard_name: str,
    gates: frozenset[str],
    now: Timestamps,
    metrics: ControllerMetrics,
) -> list[ControllerSpec]:
    made: list[ControllerSpec] = [
        ReplicateMarking(lister, client(replicate_marking.NAME), published, metrics),
        Replication(lister, published, shard_name, metrics),
    ]
    if CACHE_APIS in gates:
        resources = CachedResources(
            lister,
            client(cached_resources.NAME),
            directory,
            published,
            shard_name,
            now,
            metrics,
        )
        slices = CachedSlices(
            ApiObjects(lister, lookup), client(cached_slices.NAME), shard_name, now, metrics
        )
        made += [resources, resources.copies, slices]
    return made
