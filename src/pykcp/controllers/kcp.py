"""Builds all controllers of kcp."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.clients.interface import Lister
from pykcp.controllers.apis import all as apis
from pykcp.controllers.apis import default_bindings
from pykcp.controllers.apis.default_bindings import DefaultBindings
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.cache import all as caching
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.core import cluster_deletion, logical_clusters
from pykcp.controllers.core.cluster_deletion import ClusterDeletion
from pykcp.controllers.core.logical_clusters import LogicalClusterController
from pykcp.controllers.kube.root_ca import ca_map
from pykcp.controllers.migration import migrations
from pykcp.controllers.migration.migrations import Migrations
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy import mounts, workspace_admins, workspace_types, workspaces
from pykcp.controllers.tenancy.initializers import BindingsInitializer, UniversalInitializer
from pykcp.controllers.tenancy.mounts import MountController
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.controllers.tenancy.trash_sweeping import TrashSweeping
from pykcp.controllers.tenancy.workspace_admins import WorkspaceAdmins
from pykcp.controllers.tenancy.workspace_types import WorkspaceTypes
from pykcp.controllers.tenancy.workspaces import Workspaces
from pykcp.observe.metrics import Registry
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Timestamps
from pykcp.registry.cluster_content import ClusterContent
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.restore import Trash


def make(
    *,
    lister: Lister,
    make_client: Callable[[str], ShardClient],
    content: ClusterContent,
    directory: Directory,
    bound: BoundResources,
    lookup: ObjectLookup,
    metrics: ControllerMetrics,
    registry: Registry,
    shard_name: str,
    ca_bundle: str,
    gates: frozenset[str],
    published: PublishedCopies,
    trash: Trash,
    clock: Callable[[], float] = time.time,
) -> list[ControllerSpec]:
    """All of them; `make_client` makes a client for a user."""
    now = Timestamps(clock)

    def client(name: str) -> ShardClient:
        return make_client(f"system:serviceaccount:kube-system:{name}")

    provisioning = WorkspaceProvisioning(
        lookup, lambda namespace: ca_map(namespace, ca_bundle), shard_name, now
    )
    made: list[ControllerSpec] = [
        Workspaces(lister, client(workspaces.NAME), lookup, provisioning, shard_name, now, metrics),
        LogicalClusterController(
            lister, client(logical_clusters.NAME), lookup, shard_name, now, metrics
        ),
        ClusterDeletion(lister, client(cluster_deletion.NAME), content, trash, now, metrics),
        TrashSweeping(trash, clock, metrics),
        UniversalInitializer(lister, client("kcp-universal"), metrics),
        BindingsInitializer(lister, client("kcp-apibinder"), lookup, provisioning, now, metrics),
        WorkspaceAdmins(lister, client(workspace_admins.NAME), lookup, metrics),
        WorkspaceTypes(lister, client(workspace_types.NAME), lookup, now, metrics),
        DefaultBindings(
            ApiObjects(lister, lookup), client(default_bindings.NAME), provisioning, now, metrics
        ),
    ]
    if "WorkspaceMounts" in gates:
        made.append(MountController(lister, client(mounts.NAME), directory, now, metrics))
    if migrations.GATE in gates:
        moving = client(migrations.NAME)
        made.append(Migrations(lister, moving, lookup, shard_name, now, metrics))
    made += caching.make(
        lister=lister,
        directory=directory,
        lookup=lookup,
        client=client,
        published=published,
        shard_name=shard_name,
        gates=gates,
        now=now,
        metrics=metrics,
    )
    made += apis.make(
        lister=lister,
        make_client=make_client,
        directory=directory,
        bound=bound,
        lookup=lookup,
        metrics=metrics,
        registry=registry,
        shard_name=shard_name,
        gates=gates,
    )
    return made
