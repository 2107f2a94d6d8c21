"""kcp-workspace-reports: tells the shard of a Workspace how its logical cluster here is doing.

Each change of a LogicalCluster that concerns its Workspace (phase, initializers, terminators,
conditions, deletion) is reported to the shard of the Workspace, until that shard has taken the
report. A logical cluster that its Workspace does not know is an orphan, left by a shard that
crashed at the wrong moment or was restored from a backup: it is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import ShardWaiters
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy.provisioning import is_created_ready
from pykcp.controllers.tenancy.remote_clusters import REPORT_PATH
from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import DELETING, UNSETTLED_CLUSTERS
from pykcp.registry.lookup import Replica
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

NAME = "kcp-workspace-reports"
MIGRATING_ANNOTATION = "internal.kcp.io/migrating"
_ORPHAN_AFTER = 600.0
"""Seconds after which a new logical cluster is confirmed with its Workspace."""
_HAS_OWNER = b'"resource":"workspaces"'


class ReportKey(NamedTuple):
    """A logical cluster, and the Workspace that it belongs to."""

    cluster: str
    parent: str
    name: str
    uid: str
    shard: str
    """Where the Workspace was when the logical cluster was created."""


class WorkspaceReports:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        peers: Peers,
        replica: Replica | None,
        shard_name: str,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._peers = lister, client, peers
        self._shard = shard_name
        self.controller: Controller[ReportKey] = Controller(
            NAME, self.reconcile, workers=16, metrics=metrics
        )
        self._waiters = ShardWaiters(self.controller, replica)

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)

    def _on_cluster(self, change: Change) -> None:
        if _HAS_OWNER not in change.value:
            return
        cluster = decode(change.value)
        key = self._key(change.cluster, cluster)
        if key is None:
            return
        if is_created_ready(change):
            self.controller.add_after(key, _ORPHAN_AFTER)  # the shard that asked knows it
        elif change.deleted and not meta.is_deleting(cluster):
            return  # it was moved to another shard, which reports from now on
        else:
            self.controller.add(key)

    def _key(self, name: str, cluster: Object) -> ReportKey | None:
        """None if the Workspace is on this shard, or if there is none."""
        owner = (cluster.get("spec") or {}).get("owner") or {}
        parent = owner.get("cluster") or ""
        if owner.get("resource") != WORKSPACES.resource or not parent:
            return None
        if self._lister.has(parent, LOGICAL_CLUSTERS, "cluster"):
            return None
        shard = meta.annotation(cluster, lifecycle.OWNER_SHARD_ANNOTATION)
        return ReportKey(name, parent, owner.get("name") or "", owner.get("uid") or "", shard)

    async def _resume(self) -> None:
        for index in (UNSETTLED_CLUSTERS, DELETING):
            for ref in self._lister.find(index, LOGICAL_CLUSTERS):
                cluster = self._lister.get(ref.cluster, LOGICAL_CLUSTERS, "cluster")
                key = self._key(ref.cluster, cluster) if cluster is not None else None
                if key is not None:
                    self.controller.add(key)

    async def report(self, name: str, cluster: Object) -> None:
        """Report a logical cluster now; it has arrived on this shard."""
        key = self._key(name, cluster)
        if key is not None:
            await self.reconcile(key)

    async def reconcile(self, key: ReportKey) -> None:
        cluster = await self._client.get(key.cluster, LOGICAL_CLUSTERS, "cluster")
        if cluster is not None and meta.annotation(cluster, MIGRATING_ANNOTATION):
            return  # the move decides which shard reports
        report: Object = {
            "shard": self._shard,
            "parent": key.parent,
            "name": key.name,
            "uid": key.uid,
            "cluster": key.cluster,
            "logicalCluster": cluster,
        }
        is_known = await self._send(key, report)
        if is_known is False and cluster is not None and not meta.is_deleting(cluster):
            await self._client.delete(
                key.cluster, LOGICAL_CLUSTERS, "cluster", uid=meta.uid(cluster)
            )

    async def _send(self, key: ReportKey, report: Object) -> bool | None:
        """Whether the Workspace knows the logical cluster; None if no shard has its parent."""
        unreachable: list[str] = []
        for shard in self._candidates(key.shard):
            try:
                answer = await self._peers.client(shard).send("POST", REPORT_PATH, report)
            except NotFound:
                continue
            except ServiceUnavailable as error:
                unreachable.append(f"shard {shard}: {error}")
                self._waiters.wait(shard, key)
                continue
            return bool(answer.get("known"))
        if unreachable:
            raise Requeue("; ".join(unreachable))
        return None

    def _candidates(self, first: str) -> list[str]:
        """The shard that the Workspace was on, then the others: its parent may have been moved."""
        others = [name for name in self._peers.names() if name != first]
        return [first, *others] if first and first != self._shard else others
