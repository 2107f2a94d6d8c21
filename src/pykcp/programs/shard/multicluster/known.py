"""What every request may ask about multi-cluster: it imports nothing of it."""

from __future__ import annotations

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Lister
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource

CLUSTERS = GroupVersionResource("workload.kcp.dev", "v1alpha1", "clusters")


def has_clusters(lister: Lister, cluster: str) -> bool:
    """Whether a logical cluster of this shard has Cluster objects."""
    return bool(lister.keys(CLUSTERS, cluster, limit=1))


def providers_of(lister: Lister, cluster: str) -> set[str]:
    """The logical clusters whose APIs one binds; those of root are bound by all."""
    bindings = (
        lister.get(cluster, API_BINDINGS, key.name) or {}
        for key in lister.keys(API_BINDINGS, cluster)
    )
    found = {(one.get("status") or {}).get("apiExportClusterName") or "" for one in bindings}
    return found - {"", ROOT}


async def allowed_addresses(
    egress: Outbound, cluster: str, host: str, port: int
) -> tuple[str, ...]:
    """The addresses of a server that a logical cluster may connect to. Raises SendFailed."""
    if not host:
        raise SendFailed("no Host in request URL")
    return await egress.addresses(host, port, Tenant(cluster))
