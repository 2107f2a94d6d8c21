"""All virtual workspaces of a shard, in kcp's order."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.auth.authz.chain import Authorizer
from pykcp.cache.server import Cache
from pykcp.clients.peers import Peers
from pykcp.controllers.tenancy.far_trash import FarTrash
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.moving.copies import Copies
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.restore import Trash
from pykcp.server.filters.flow_own_work import OwnWork
from pykcp.virtual.access import AccessWorkspace
from pykcp.virtual.apiexport import ApiExportWorkspace
from pykcp.virtual.apiexport.surface import ViewKinds
from pykcp.virtual.apiresourceschema import ApiResourceSchemaWorkspace
from pykcp.virtual.exports import ExportsWorkspace
from pykcp.virtual.framework import Parts, VirtualWorkspace
from pykcp.virtual.initializingworkspaces import initializing_workspaces
from pykcp.virtual.migratingworkspaces import MigratingWorkspaces
from pykcp.virtual.moving.copies import CopiesWorkspace
from pykcp.virtual.readable import ReadableWorkspace
from pykcp.virtual.replication import ReplicationWorkspace
from pykcp.virtual.terminatingworkspaces import terminating_workspaces
from pykcp.virtual.trash import TrashWorkspace
from pykcp.virtual.tree import TreeWorkspace
from pykcp.virtual.tree_visibility import Inactive
from pykcp.virtual.usage import UsageWorkspace


class VirtualSettings(NamedTuple):
    shard: str
    """The name of this one."""
    gates: frozenset[str]
    """Features that are on."""


def virtual_workspaces(
    store: StoreReader,
    directory: Directory,
    bound: BoundResources,
    lookup: ObjectLookup,
    authorizer: Authorizer,
    cache: Cache,
    inactive: Inactive,
    trash: Trash,
    far: FarTrash | None,
    copies: Copies,
    peers: Peers | None,
    settings: VirtualSettings,
    work: OwnWork | None,
) -> tuple[VirtualWorkspace, ...]:
    parts = Parts(directory, lookup, authorizer)
    exports = ApiExportWorkspace(store, ViewKinds(lookup, directory, bound), authorizer, work)
    exports.follow_cache(cache.store, settings.shard)
    made: list[VirtualWorkspace] = [
        exports,
        ApiResourceSchemaWorkspace(parts),
        ExportsWorkspace(parts, exports),
        initializing_workspaces(parts),
        terminating_workspaces(parts),
        TreeWorkspace(parts, store, inactive),
        ReadableWorkspace(parts, inactive),
        AccessWorkspace(parts),
        UsageWorkspace(parts),
        CopiesWorkspace(parts, copies, peers),
    ]
    if trash.window:
        made.append(TrashWorkspace(parts, trash, far))
    if "CacheAPIs" in settings.gates:
        made.append(ReplicationWorkspace(parts, cache, settings.shard))
    if "LogicalClusterMigration" in settings.gates:
        made.append(MigratingWorkspaces(parts))
    return tuple(made)
