"""Builds all controllers of kcp."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.controllers.apis import all as apis
from pykcp.controllers.apis import default_bindings
from pykcp.controllers.apis.apibinding import APIBindings
from pykcp.controllers.apis.default_bindings import DefaultBindings
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.cache import all as caching
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.core import cluster_deletion, logical_clusters
from pykcp.controllers.core.cluster_deletion import ClusterDeletion, FarWorkspaces
from pykcp.controllers.core.logical_clusters import LogicalClusterController
from pykcp.controllers.kube.root_ca import ca_map
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.parts import ControllerParts
from pykcp.controllers.tenancy import mounts, workspace_admins, workspace_types, workspaces
from pykcp.controllers.tenancy.initializers import BindingsInitializer, UniversalInitializer
from pykcp.controllers.tenancy.mounts import MountController
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.controllers.tenancy.remote_clusters import RemoteClusters
from pykcp.controllers.tenancy.trash_sweeping import TrashSweeping
from pykcp.controllers.tenancy.workspace_admins import WorkspaceAdmins
from pykcp.controllers.tenancy.workspace_types import WorkspaceTypes
from pykcp.controllers.tenancy.workspaces import Workspaces
from pykcp.registry.cluster_content import ClusterContent
from pykcp.registry.moving.parts import ShardMoves
from pykcp.registry.verbs.restore import Trash

MIGRATION_GATE = "LogicalClusterMigration"


def make(
    parts: ControllerParts,
    *,
    content: ClusterContent,
    ca_bundle: str,
    published: PublishedCopies,
    trash: Trash,
    moving: ShardMoves,
) -> list[ControllerSpec]:
    provisioning = WorkspaceProvisioning(
        parts.lookup, lambda namespace: ca_map(namespace, ca_bundle), parts.shard_name, parts.now()
    )
    made = [
        *_cluster_controllers(parts, content, trash),
        *_workspace_controllers(parts, provisioning),
        *caching.make(parts, published),
        *apis.make(parts),
    ]
    return [*made, *_moving_controllers(parts, moving, provisioning, made)]


def _moving_controllers(
    parts: ControllerParts,
    moving: ShardMoves,
    provisioning: WorkspaceProvisioning,
    others: Sequence[ControllerSpec],
) -> list[ControllerSpec]:
    """What lets logical clusters move between shards; imported only where it is used."""
    made: list[ControllerSpec] = []
    reports = None
    if parts.peers is not None:
        from pykcp.controllers.tenancy.workspace_reports import WorkspaceReports
        from pykcp.controllers.topology import revision_slots

        client = parts.account(revision_slots.NAME)
        made.append(
            revision_slots.RevisionSlots(
                parts.lister,
                client,
                parts.lookup,
                moving.use_slot,
                parts.shard_name,
                parts.metrics,
            )
        )
        reports = next(one for one in others if isinstance(one, WorkspaceReports))
    if MIGRATION_GATE in parts.gates:
        from pykcp.controllers.migration import all as migration

        bindings = next(one for one in others if isinstance(one, APIBindings))
        made.append(migration.make(parts, moving, provisioning, bindings, reports))
        made.append(migration.make_plans(parts))
    return made


def _cluster_controllers(
    parts: ControllerParts, content: ClusterContent, trash: Trash
) -> list[ControllerSpec]:
    """Phases and deletion of logical clusters."""
    lister, lookup, metrics, client = parts.lister, parts.lookup, parts.metrics, parts.account
    shard_name, now = parts.shard_name, parts.now()
    made: list[ControllerSpec] = [
        LogicalClusterController(
            lister, client(logical_clusters.NAME), lookup, shard_name, now, metrics
        ),
        ClusterDeletion(
            lister, client(cluster_deletion.NAME), content, trash, now, metrics, _far(parts)
        ),
        TrashSweeping(trash, parts.clock, metrics),
    ]
    return made


def _far(parts: ControllerParts) -> FarWorkspaces | None:
    """Workspaces of other shards whose logical clusters are here."""
    if parts.peers is None:
        return None
    from pykcp.controllers.tenancy.far_trash import FarTrash

    return FarTrash(parts.peers)


def _workspace_controllers(
    parts: ControllerParts, provisioning: WorkspaceProvisioning
) -> list[ControllerSpec]:
    lister, lookup, metrics, client = parts.lister, parts.lookup, parts.metrics, parts.account
    shard_name, now = parts.shard_name, parts.now()
    made: list[ControllerSpec] = [
        Workspaces(
            lister,
            client(workspaces.NAME),
            lookup,
            provisioning,
            RemoteClusters(parts.peers, shard_name),
            shard_name,
            now,
            metrics,
        ),
        UniversalInitializer(lister, client("kcp-universal"), metrics),
        BindingsInitializer(lister, client("kcp-apibinder"), lookup, provisioning, now, metrics),
        WorkspaceAdmins(lister, client(workspace_admins.NAME), lookup, metrics),
        WorkspaceTypes(lister, client(workspace_types.NAME), lookup, now, metrics),
        DefaultBindings(
            ApiObjects(lister, lookup), client(default_bindings.NAME), provisioning, now, metrics
        ),
    ]
    if parts.peers is not None:
        from pykcp.controllers.tenancy import workspace_reports

        reporting = client(workspace_reports.NAME)
        made.append(
            workspace_reports.WorkspaceReports(
                lister, reporting, parts.peers, lookup.replica, shard_name, metrics
            )
        )
    if "WorkspaceMounts" in parts.gates:
        made.append(MountController(lister, client(mounts.NAME), parts.directory, now, metrics))
    return made
