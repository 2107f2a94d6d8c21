"""The phase of a LogicalCluster, and what follows from it: labels, finalizer, address."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy.provisioning import is_created_ready
from pykcp.machinery.kcp import clusters
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.indexes.entries import DELETING, UNSETTLED_CLUSTERS
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
from pykcp.types import Object

NAME = "kcp-logicalcluster"
_DELETING = b'"deletionTimestamp":"'
_HAS_TERMINATORS = lifecycle.TERMINATORS_FINALIZER.encode()
_SOON = 0.5
"""Seconds after which an unfinished deletion is reported."""


class LogicalClusterController:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        lookup: ObjectLookup,
        shard_name: str,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self._shard = shard_name
        self._now = now
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=16, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)

    def _on_cluster(self, change: Change) -> None:
        if change.deleted or is_created_ready(change):
            return
        key = ObjectKey(change.cluster, "", "cluster")
        if _DELETING in change.value and _HAS_TERMINATORS not in change.value:
            self.controller.add_after(key, _SOON)  # most are gone by then
        else:
            self.controller.add(key)

    async def _resume(self) -> None:
        for index in (UNSETTLED_CLUSTERS, DELETING):
            for ref in self._lister.find(index, LOGICAL_CLUSTERS):
                self.controller.add(ref.key)

    def url_of(self, cluster: str) -> str:
        shard = KnownShards(self._lookup).get(self._shard)
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
