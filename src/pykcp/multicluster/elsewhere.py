"""Clusters of workspaces on other shards, as this process may use them.

Their objects arrive without credentials. The cluster itself is reached through the shard of its
registration, which has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.kcp.binding_source import source_of
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.status import ServiceUnavailable
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.multicluster.names import EXPORT
from pykcp.types import Object


def key_of(cluster: Object) -> ObjectKey:
    return ObjectKey(meta.annotation(cluster, meta.CLUSTER_ANNOTATION), "", meta.name(cluster))


def provider_of(binding: bytes) -> str:
    """The logical cluster whose clusters an APIBinding may bring; kcp's own exports bring none."""
    export = source_of(binding)
    return "" if export.name == EXPORT or export.cluster == ROOT else export.cluster


class ClustersElsewhere(Protocol):
    def get(self, key: ObjectKey) -> Object | None:
        """A Cluster of another shard."""

    def all(self, workspace: str = "*") -> Iterable[Object]:
        """Those of one workspace, or of all."""

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        """Call this for every Cluster that changes, appears or goes."""

    def open(self, cluster: Object) -> ClusterClient:
        """A new client for the cluster itself. Raises StatusError if its shard is not known."""

    async def consumers(self, workspace: str) -> list[tuple[str, Client]]:
        """Workspaces of other shards that bind an API of one of this shard, with clients for them.

        Raises StatusError if a shard does not answer: then it is not known.
        """


class NoOtherShards:
    """Of a program that has one server, or of a shard that is the only one."""

    def get(self, key: ObjectKey) -> Object | None:
        return None

    def all(self, workspace: str = "*") -> Iterable[Object]:
        return ()

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        """Nothing ever changes."""

    def open(self, cluster: Object) -> ClusterClient:
        raise ServiceUnavailable("there are no other shards")

    async def consumers(self, workspace: str) -> list[tuple[str, Client]]:
        return []
