"""The objects that tokens of service accounts depend on, on this shard and on others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pykcp.caching import BoundedCache
from pykcp.machinery.resources import (
    LOGICAL_CLUSTERS,
    SECRETS,
    SERVICE_ACCOUNTS,
    GroupVersionResource,
)
from pykcp.machinery.status import StatusError
from pykcp.registry.local import LocalClient
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

_FOUND_SECONDS, _MISSING_SECONDS = 60.0, 10.0
_KEEP = 4096


class StoredObjects:
    """The objects of this shard."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client

    async def service_account(self, cluster: str, namespace: str, name: str) -> Object | None:
        return await self._get(cluster, SERVICE_ACCOUNTS, namespace, name)

    async def secret(self, cluster: str, namespace: str, name: str) -> Object | None:
        return await self._get(cluster, SECRETS, namespace, name)

    async def _get(
        self, cluster: str, kind: GroupVersionResource, namespace: str, name: str
    ) -> Object | None:
        return await self._client.get(cluster, kind, name, namespace)


class _Fetched(NamedTuple):
    until: float
    obj: Object | None


class FleetObjects(StoredObjects):
    """Those of logical clusters on other shards are fetched, and kept as long as kcp does."""

    def __init__(
        self, client: LocalClient, peers: Peers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(client)
        self._peers, self._clock = peers, clock
        self._fetched: BoundedCache[tuple[str, str, str, str], _Fetched] = BoundedCache(
            "remote-accounts", _KEEP
        )
        self._shards: BoundedCache[str, str] = BoundedCache("account-shards", _KEEP)
        """By logical cluster: where its objects were found last."""

    async def _get(
        self, cluster: str, kind: GroupVersionResource, namespace: str, name: str
    ) -> Object | None:
        if not cluster:
            return None
        if await self._client.get(cluster, LOGICAL_CLUSTERS, "cluster") is not None:
            return await super()._get(cluster, kind, namespace, name)
        key = (cluster, kind.resource, namespace, name)
        known = self._fetched.get(key)
        if known is not None and self._clock() < known.until:
            return known.obj
        found = await self._fetch(cluster, kind, namespace, name)
        seconds = _MISSING_SECONDS if found is None else _FOUND_SECONDS
        self._fetched.put(key, _Fetched(self._clock() + seconds, found))
        return found

    async def _fetch(
        self, cluster: str, kind: GroupVersionResource, namespace: str, name: str
    ) -> Object | None:
        """From whichever shard has it. What cannot be verified is not accepted."""
        last = self._shards.get(cluster)
        shards = sorted(self._peers.names(), key=lambda shard: shard != last)
        for shard in shards:
            try:
                found = await self._peers.client(shard).get(cluster, kind, name, namespace)
            except StatusError:
                continue
            if found is not None:
                self._shards.put(cluster, shard)
                return found
        return None
