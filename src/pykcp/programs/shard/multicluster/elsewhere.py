"""Clusters of other shards: published in the cache, reached through their shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pykcp.clients.interface import Client
from pykcp.clients.peers import Peers
from pykcp.controllers.cache.replication_plan import DELETION_ANNOTATION
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_EXPORTS, WORKLOAD_CLUSTERS
from pykcp.multicluster.clusters.connection import TENANT_SETTINGS, ClusterClient
from pykcp.multicluster.elsewhere import key_of
from pykcp.multicluster.names import cluster_path, home_shard
from pykcp.programs.shard.multicluster.known import consumers_at
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.lookup import Replica
from pykcp.types import Object


class PublishedClusters:
    """See `ClustersElsewhere`."""

    def __init__(self, replica: Replica, peers: Peers, lister: LocalLister) -> None:
        self._replica, self._peers, self._lister = replica, peers, lister

    def get(self, key: ObjectKey) -> Object | None:
        found = self._replica.get(WORKLOAD_CLUSTERS, key.cluster, key.name)
        return None if found is None else _as_it_is(found)

    def all(self, workspace: str = WILDCARD) -> Iterator[Object]:
        return map(_as_it_is, self._replica.all(WORKLOAD_CLUSTERS, workspace))

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        self._replica.follow(
            WORKLOAD_CLUSTERS, lambda cluster, name: changed(ObjectKey(cluster, "", name))
        )

    def open(self, cluster: Object) -> ClusterClient:
        key = key_of(cluster)
        http = self._peers.connections(home_shard(cluster), TENANT_SETTINGS, key.cluster)
        prefix = cluster_path(key.cluster, key.name, meta.uid(cluster))
        return ClusterClient(http, prefix, tenant=key.cluster)

    async def consumers(self, workspace: str) -> list[tuple[str, Client]]:
        exports = [export.name for export in self._lister.keys(API_EXPORTS, workspace)]
        found: dict[str, Client] = {}
        for shard in self._peers.names() if exports else ():
            client = self._peers.client(shard)
            found.update(dict.fromkeys(await consumers_at(client, workspace, exports), client))
        return sorted(found.items(), key=lambda item: item[0])


def _as_it_is(copy: Object) -> Object:
    """A published Cluster with the mark of its deletion where objects have it."""
    since = meta.annotation(copy, DELETION_ANNOTATION)
    if not since:
        return copy
    return {**copy, "metadata": {**copy["metadata"], "deletionTimestamp": since}}
