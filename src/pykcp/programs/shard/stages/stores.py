"""The stage of stores: objects, the distribution of changes, and what other shards publish."""

from __future__ import annotations

import asyncio
import pathlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pykcp.cache.server import Cache, make_cache
from pykcp.observe.metrics import Gauge
from pykcp.programs.cache.storing import FILE, MIRROR_FILE
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.shard.stages.foundation import BackgroundTask, Foundation
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.keys import enclosing_prefixes
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.watch.hub import WatchHub
from pykcp.registry.watch.joining import JOINED
from pykcp.storage.group import ServerGroup
from pykcp.storage.interface import SEALED_INDEX, Store

if TYPE_CHECKING:
    from pykcp.cache.mirror import CacheMirror
    from pykcp.storage.progress import LogFollowers


@dataclass(frozen=True, slots=True)
class StoresStage:
    store: Store
    hub: WatchHub
    cache: Cache
    mirror: CacheMirror | None
    """Follows a remote cache server into `cache`, in the process that writes the stores; None if
    the cache server is in this process."""
    sources: Sources
    moves: ClusterMoves
    tasks: tuple[BackgroundTask, ...]


def build_stores(base: Foundation, store: Store, cache_store: Store) -> StoresStage:
    """On stores that are started: their content is read while the next stages are built."""
    hub = WatchHub(
        store, asyncio.get_running_loop(), is_shared=store.group is not None, joined=JOINED
    )
    base.metrics.add(*_gauges(store, hub))
    if store.group is not None:
        base.metrics.add(*_group_gauges(store.group))
    tasks: list[BackgroundTask] = []
    if base.settings.store.encryption_provider_config:
        tasks += _follow_encryption(base, store, hub)
    base.health.add("etcd", store.health)
    base.health.add("etcd-readiness", store.health, only_ready=True)
    cache = make_cache(cache_store, base.settings.shard.shard_name)
    mirror = _mirror(base.settings, cache)
    if mirror is not None:
        base.metrics.add(*_mirror_gauges(mirror))
    sources = Sources(now=Timestamps(time.time))
    moves = ClusterMoves(store, hub)
    return StoresStage(store, hub, cache, mirror, sources, moves, tuple(tasks))


CACHE_PART = "cache"
"""Of what is in etcd: the embedded cache, which several servers may share."""


def cache_file(settings: ShardSettings) -> str:
    """The file of the cache: its own, or that of the copy of a remote one."""
    return MIRROR_FILE if settings.shard.remote_cache else FILE


def _mirror(settings: ShardSettings, cache: Cache) -> CacheMirror | None:
    kubeconfig = settings.shard.remote_cache
    if not kubeconfig:
        return None
    from pykcp.cache.mirror import CacheMirror
    from pykcp.cache.remote import connect_cache

    name = settings.shard.shard_name
    return CacheMirror(connect_cache(kubeconfig, f"kcp-shard-{name}"), cache, name)


def make_store(settings: ShardSettings, followers: LogFollowers | None = None) -> Store:
    """The store of a shard, with encryption at rest if it is configured."""
    return settings.store.make(settings.generic.root_directory, followers)


async def start_store(store: Store) -> Store:
    """Start it; encrypted values without a configuration are refused rather than misread."""
    await store.start()
    if not store.lookup(SEALED_INDEX, limit=1):
        return store
    from pykcp.storage.encryption.store import guarded

    return guarded(store)


def _follow_encryption(base: Foundation, store: Store, hub: WatchHub) -> list[BackgroundTask]:
    from pykcp.storage.encryption import EncryptedStore
    from pykcp.storage.encryption.reload import ConfigFollower

    assert isinstance(store, EncryptedStore)
    store.on_unreadable(partial(_end_watches_of, hub))
    base.health.add("kms-providers", store.providers_health)
    if not base.settings.store.encryption_provider_config_automatic_reload:
        return []
    follower = ConfigFollower(pathlib.Path(base.settings.store.encryption_provider_config), store)
    base.metrics.add(*follower.metrics)
    return [BackgroundTask("encryption-config", follower.run)]


def _end_watches_of(hub: WatchHub, key: str) -> None:
    hub.end_under(enclosing_prefixes(key)[0])


def _group_gauges(group: ServerGroup) -> list[Gauge]:
    return [
        Gauge("pykcp_servers", "Servers that share the store.", lambda: group.members),
        Gauge(
            "pykcp_leader", "1 if this server runs the controllers.", lambda: int(group.is_leader)
        ),
        Gauge(
            "pykcp_alone",
            "1 if no other server shares the store, so that requests do not wait for one.",
            lambda: int(group.is_alone),
        ),
    ]


def _mirror_gauges(mirror: CacheMirror) -> list[Gauge]:
    return [
        Gauge(
            "pykcp_cache_server_connected",
            "Whether the cache server of --cache-kubeconfig can be reached: 1 or 0.",
            lambda: int(mirror.is_connected),
        ),
        Gauge(
            "pykcp_cache_parts_kept",
            "Shards of which objects are kept that the cache server does not have, until their part there is complete.",
            lambda: mirror.kept_parts,
        ),
    ]


def _gauges(store: Store, hub: WatchHub) -> list[Gauge]:
    return [
        Gauge("pykcp_store_revision", "Current revision of the store.", lambda: store.revision),
        Gauge(
            "pykcp_store_compacted_revision",
            "Revision up to which history is compacted.",
            lambda: store.compacted,
        ),
        Gauge(
            "pykcp_store_size_bytes",
            "Bytes used by the store, as last measured.",
            lambda: store.size.used,
        ),
        Gauge(
            "pykcp_store_size_limit_bytes",
            "Size limit of the store in bytes; 0 means no limit.",
            lambda: store.size.most_bytes,
        ),
        Gauge("apiserver_longrunning_requests", "Open watches.", lambda: hub.count),
        Gauge(
            "pykcp_watch_events_delivered",
            "Events delivered to watchers since start.",
            lambda: hub.delivered,
        ),
        Gauge(
            "pykcp_watch_slow_ended",
            "Watches ended since start because the client read too slowly.",
            lambda: hub.ended_slow,
        ),
    ]
