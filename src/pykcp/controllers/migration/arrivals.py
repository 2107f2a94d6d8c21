"""What refers to a logical cluster that has arrived: its Workspace, and its own bindings."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.clients.interface import Lister
from pykcp.controllers.tenancy.hosting import ClusterReport, HostedClusters
from pykcp.controllers.tenancy.workspace_reports import WorkspaceReports
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, LOGICAL_CLUSTERS, WORKSPACES
from pykcp.types import Object


class ArrivedClusters:
    def __init__(
        self,
        lister: Lister,
        hosted: HostedClusters,
        reports: WorkspaceReports,
        rebind: Callable[[ObjectKey], None],
        shard: str,
    ) -> None:
        """`rebind`: has a binding reconciled."""
        self._lister, self._hosted, self._reports = lister, hosted, reports
        self._rebind, self._shard = rebind, shard

    async def settle(self, cluster: str) -> None:
        """Tell the Workspace where its logical cluster is, and bring its bindings up to date."""
        found = self._lister.get(cluster, LOGICAL_CLUSTERS, "cluster")
        if found is None:
            return
        for key in self._lister.keys(API_BINDINGS, cluster):
            self._rebind(key)
        owner = (found.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource or not owner.get("cluster"):
            return
        if self._lister.has(owner["cluster"], LOGICAL_CLUSTERS, "cluster"):
            await self._hosted.report(_report(self._shard, cluster, found, owner))
        else:
            await self._reports.report(cluster, found)


def _report(shard: str, cluster: str, found: Object, owner: Object) -> ClusterReport:
    return ClusterReport(
        shard, owner["cluster"], owner.get("name") or "", owner.get("uid") or "", cluster, found
    )
