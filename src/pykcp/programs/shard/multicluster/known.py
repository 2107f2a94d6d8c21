"""What every request may ask about multi-cluster: it imports nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Lister, Reader
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.machinery import meta
from pykcp.machinery.kcp.binding_source import source_of
from pykcp.machinery.kcp.clusters import ROOT, WILDCARD
from pykcp.machinery.kcp.hashes import EXPORT_LABEL, export_label_value
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, WORKLOAD_CLUSTERS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.registry.indexes.apis import bindings_of
from pykcp.registry.lookup import ObjectLookup, Replica

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers
    from pykcp.programs.shard.multicluster.elsewhere import PublishedClusters
    from pykcp.registry.local_lister import LocalLister

CLUSTERS = WORKLOAD_CLUSTERS


class ShardsWithClusters:
    """Clusters that other shards published."""

    def __init__(self, replica: Replica, peers: Peers) -> None:
        self._replica, self._peers = replica, peers

    def have_clusters(self, workspace: str = WILDCARD) -> bool:
        return any(True for _ in self._replica.all(CLUSTERS, workspace))

    def workspaces(self) -> set[str]:
        """Those that the Clusters are of."""
        found = self._replica.all(CLUSTERS)
        return {meta.annotation(one, meta.CLUSTER_ANNOTATION) for one in found}

    def exports(self, workspace: str) -> list[str]:
        """The names of the APIExports of a workspace."""
        return [meta.name(one) for one in self._replica.all(API_EXPORTS, workspace)]

    def follow(self, changed: Callable[[str, str], None]) -> None:
        """Call this with the workspace and the name of every one that changes."""
        self._replica.follow(CLUSTERS, changed)

    def clusters(self, lister: LocalLister) -> PublishedClusters:
        from pykcp.programs.shard.multicluster.elsewhere import PublishedClusters

        return PublishedClusters(self._replica, self._peers, lister)


def shards_with_clusters(lookup: ObjectLookup, peers: Peers | None) -> ShardsWithClusters | None:
    """None if there are none."""
    if peers is None or lookup.replica is None:
        return None
    return ShardsWithClusters(lookup.replica, peers)


def has_clusters(lister: Lister, cluster: str) -> bool:
    """Whether a logical cluster of this shard has Cluster objects."""
    return bool(lister.keys(CLUSTERS, cluster, limit=1))


def providers_of(lister: Lister, cluster: str) -> set[str]:
    """The logical clusters whose APIs one binds; those of root are bound by all."""
    bindings = (
        lister.stored(cluster, API_BINDINGS, key.name) for key in lister.keys(API_BINDINGS, cluster)
    )
    return {source_of(one).cluster for one in bindings if one is not None} - {"", ROOT}


def consumers_of(lister: Lister, workspace: str, others: ShardsWithClusters | None) -> set[str]:
    """Workspaces of this shard that bind an API of one; those of root are bound by all.

    `others`: where the exports of a workspace of another shard are found; None if there are none.
    """
    if workspace == ROOT:
        return set()
    exports = [export.name for export in lister.keys(API_EXPORTS, workspace)]
    if not exports and others is not None:
        exports = others.exports(workspace)
    return {
        ref.cluster
        for export in exports
        for ref in lister.find(bindings_of(export_label_value(workspace, export)), API_BINDINGS)
    }


async def consumers_at(client: Reader, workspace: str, exports: Iterable[str]) -> set[str]:
    """Workspaces of another shard that bind one of the exports. Raises StatusError."""
    found: set[str] = set()
    for export in exports:
        label = f"{EXPORT_LABEL}={export_label_value(workspace, export)}"
        bindings = await client.list(WILDCARD, API_BINDINGS, labels=label)
        found |= {meta.annotation(one, meta.CLUSTER_ANNOTATION) for one in bindings}
    if "" in found:
        raise ServiceUnavailable("a shard does not say where its bindings are")
    return found


async def allowed_addresses(
    egress: Outbound, cluster: str, host: str, port: int
) -> tuple[str, ...]:
    """The addresses of a server that a logical cluster may connect to. Raises SendFailed."""
    if not host:
        raise SendFailed("no Host in request URL")
    return await egress.addresses(host, port, Tenant(cluster))
