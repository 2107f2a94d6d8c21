"""Builds the controllers that use the cache."""

from __future__ import annotations

from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.apis.published_slices import PublishedSlices
from pykcp.controllers.cache import cached_resources, cached_slices, replicate_marking
from pykcp.controllers.cache.cached_resources import CachedResources
from pykcp.controllers.cache.cached_slices import CachedSlices
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.cache.replicate_marking import ReplicateMarking
from pykcp.controllers.cache.replication import Replication
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.parts import ControllerParts
from pykcp.machinery.resources import CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES

CACHE_APIS = "CacheAPIs"
"""The gate of what users can put into the cache themselves."""


def make(parts: ControllerParts, published: PublishedCopies) -> list[ControllerSpec]:
    lister, metrics, client = parts.lister, parts.metrics, parts.account
    shard_name, now = parts.shard_name, parts.now()
    made: list[ControllerSpec] = [
        ReplicateMarking(lister, client(replicate_marking.NAME), published, metrics),
        Replication(lister, published, shard_name, metrics),
    ]
    if CACHE_APIS in parts.gates:
        resources = CachedResources(
            lister,
            client(cached_resources.NAME),
            parts.directory,
            published,
            shard_name,
            now,
            metrics,
        )
        slices = CachedSlices(
            ApiObjects(lister, parts.lookup),
            client(cached_slices.NAME),
            PublishedSlices(
                CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES, parts.lookup.replica, parts.peers
            ),
            shard_name,
            now,
            metrics,
        )
        made += [resources, resources.copies, slices]
    return made
