"""Logical clusters on this shard whose workspaces are on other shards, and the reverse.

`provision` and `report` are what shards ask of each other: the shard of the parent has a logical
cluster provisioned here, and the shard of a logical cluster reports its changes to the shard of
its workspace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp.workspace_types import BadType
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.controllers.tenancy.remote_clusters import is_owned
from pykcp.controllers.tenancy.settling import external_url, let_go, shard_marks
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import AlreadyExists, Conflict, NotFound
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
from pykcp.registry.verbs.transaction import Write
from pykcp.types import Object


class ClusterReport(NamedTuple):
    """What the shard of a logical cluster reports to the shard of its workspace."""

    shard: str
    """The shard of the logical cluster."""
    parent: str
    """The logical cluster of the Workspace."""
    name: str
    uid: str
    """Of the Workspace."""
    cluster: str
    logical_cluster: Object | None
    """None: it is deleted."""


class HostedClusters:
    def __init__(
        self,
        client: ShardClient,
        lookup: ObjectLookup,
        provisioning: WorkspaceProvisioning,
        shard_name: str,
        now: Callable[[], str],
    ) -> None:
        self._client, self._provisioning = client, provisioning
        self._shards = KnownShards(lookup)
        self._shard = shard_name
        self._now = now

    async def provision(self, workspace: Object, cluster: str, path: str, shard: str) -> Object:
        """The logical cluster of a Workspace of another shard, made in one transaction.

        A repeated request returns the existing one. Raises AlreadyExists if the name is taken,
        Conflict if the workspace's type is not known here yet, and what admission raises.
        """
        existing = await self._client.get(cluster, LOGICAL_CLUSTERS, "cluster")
        if existing is not None:
            if not is_owned(existing, workspace):
                raise AlreadyExists.resource(*LOGICAL_CLUSTERS[::2], "cluster")
            return existing
        external = external_url(self._shards.get(self._shard) or {})
        own_url = f"{external}{clusters.request_path(cluster)}"
        try:
            plan = self._provisioning.of_workspace(workspace, cluster, path, own_url)
        except BadType as error:
            raise Conflict(str(error)) from error
        plan.cluster["metadata"]["annotations"][lifecycle.OWNER_SHARD_ANNOTATION] = shard
        client = self._client
        writes: list[Write] = [client.to_create(cluster, LOGICAL_CLUSTERS, plan.cluster)]
        writes += (client.from_template(cluster, kind, copy) for kind, copy in plan.parts)
        await client.transaction(writes)
        made = await client.get(cluster, LOGICAL_CLUSTERS, "cluster")
        if made is None:
            raise Conflict("the logical cluster was deleted meanwhile")
        return made

    async def report(self, report: ClusterReport) -> bool:
        """A Workspace of this shard follows its logical cluster on another one.

        Returns whether the Workspace knows the logical cluster; one that it does not know is an
        orphan. Raises NotFound if the parent is not on this shard.
        """
        if await self._client.get(report.parent, LOGICAL_CLUSTERS, "cluster") is None:
            raise NotFound.resource(*LOGICAL_CLUSTERS[::2], "cluster")
        workspace = await self._client.get(report.parent, WORKSPACES, report.name)
        if workspace is None or meta.uid(workspace) != report.uid:
            return False
        spec = workspace.get("spec") or {}
        reserved = meta.annotation(workspace, lifecycle.CLUSTER_ANNOTATION)
        if report.cluster != (spec.get("cluster") or reserved):
            return False
        if not spec.get("cluster"):
            return True  # its controller is about to record the logical cluster
        placed = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION)
        if report.logical_cluster is None and placed != report.shard:
            return True  # it was moved away from there, not deleted
        client = self._client
        update = client.to_update(report.parent, WORKSPACES, report.name, self._change(report))
        try:
            await client.transaction([update])
        except NotFound:
            return False
        return True

    def _change(self, report: ClusterReport) -> Callable[[Object], None]:
        now = self._now()
        shard = self._shards.get(report.shard)

        def change(live: Object) -> None:
            if meta.uid(live) != report.uid:
                raise NotFound.resource(*WORKSPACES[::2], report.name)
            found = report.logical_cluster
            if found is not None and shard is not None:
                shard_marks(live, shard)
            if found is None and meta.is_deleting(live):
                let_go(live)
            lifecycle.mirror(live, found, now)

        return change
