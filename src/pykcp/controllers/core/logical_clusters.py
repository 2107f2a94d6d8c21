"""The phase of a LogicalCluster, and what follows from it: labels, finalizer, address."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.controllers.runtime.controller import Controller, ObjectKey
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.tenancy.provisioning import is_created_ready
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.indexes.entries import DELETING, UNSETTLED_CLUSTERS
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

NAME = "kcp-logicalcluster"
_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_DELETING = b'"deletionTimestamp":"'
_HAS_TERMINATORS = lifecycle.TERMINATORS_FINALIZER.encode()
_SOON = 0.5
"""Seconds after which an unfinished deletion is reported."""


class LogicalClusterController:
    def __init__(
        self,
        store: Store,
        client: LocalClient,
        lookup: ObjectLookup,
        shard_name: str,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._store, self._client, self._lookup = store, client, lookup
        self._shard = shard_name
        self._now = now
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=16, metrics=metrics
        )

    def follow(self, feed: LogFeed) -> None:
        feed.on(_PREFIX, self._on_cluster)
        feed.at_start(self._resume)

    def _on_cluster(self, event: Event) -> None:
        if event.deleted or is_created_ready(event):
            return
        key = ObjectKey(split_key(event.key).cluster, "", "cluster")
        if _DELETING in event.value and _HAS_TERMINATORS not in event.value:
            self.controller.add_after(key, _SOON)  # most are gone by then
        else:
            self.controller.add(key)

    async def _resume(self) -> None:
        for index in (UNSETTLED_CLUSTERS, DELETING):
            for key in self._store.lookup(index):
                if key.startswith(_PREFIX):
                    self.controller.add(ObjectKey(split_key(key).cluster, "", "cluster"))

    def url_of(self, cluster: str) -> str:
        shard = self._lookup.get(SHARDS, clusters.ROOT, self._shard)
        external = (shard or {}).get("spec", {}).get("externalURL") or ""
        return f"{external}{clusters.request_path(cluster)}"

    async def reconcile(self, key: ObjectKey) -> None:
        found = self._lookup.logical_cluster(key.cluster)
        if found is None:
            return
        url, now = self.url_of(key.cluster), self._now()

        def settle(live: Object) -> None:
            lifecycle.settle(live, url, self._shard, now)

        wanted = codec.copy(found)
        settle(wanted)
        if wanted == found:
            return
        client = self._client
        try:
            await client.transaction(
                [client.to_update(key.cluster, LOGICAL_CLUSTERS, "cluster", settle)]
            )
        except NotFound:
            return
