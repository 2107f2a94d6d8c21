"""The stage of views: virtual workspaces, the embedded cache server, and the front application."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from pykcp.cache.server import make_server as make_cache_server
from pykcp.clients.http.trust import Trust
from pykcp.controllers.tenancy.far_trash import FarTrash
from pykcp.observe.metrics import Registry
from pykcp.programs.shard.multicluster.syncer_views import SyncerWorkspace
from pykcp.programs.shard.stages.access import AccessStage
from pykcp.programs.shard.stages.api import ApiStage
from pykcp.programs.shard.stages.catalog import CatalogStage
from pykcp.programs.shard.stages.foundation import BackgroundTask, Foundation
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.programs.shard.where import WhereService
from pykcp.registry.clock import Timestamps
from pykcp.registry.local import LocalClient
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.moving.copies import Copies
from pykcp.registry.moving.parts import ShardMoves, shard_moves
from pykcp.registry.verbs.restore import Trash
from pykcp.server.filters.flow_own_work import OwnWork
from pykcp.server.mount import FrontDoor
from pykcp.storage.interface import Store
from pykcp.virtual.all import VirtualSettings, virtual_workspaces
from pykcp.virtual.framework import Parts, VirtualWorkspace
from pykcp.virtual.remote import RemoteServer, RemoteWorkspaces
from pykcp.virtual.serving import Host, VirtualWorkspaces
from pykcp.wire.exchange import Application


@dataclass(frozen=True, slots=True)
class ViewsStage:
    front: Application
    trash: Trash
    where: WhereService
    moving: ShardMoves
    tasks: tuple[BackgroundTask, ...]


def build_views(
    base: Foundation, stores: StoresStage, catalog: CatalogStage, access: AccessStage, api: ApiStage
) -> ViewsStage:
    trash = Trash(
        stores.store,
        catalog.directory,
        catalog.lookup,
        stores.sources.now,
        base.settings.tenancy.workspace_undelete_window,
    )
    trash.far = far = FarTrash(catalog.peers) if catalog.peers is not None else None
    local = VirtualWorkspaces(
        _host(base, access, api), _workspaces(base, stores, catalog, access, api, trash, far)
    )
    remote = _remote(base)
    tasks: tuple[BackgroundTask, ...] = ()
    if remote is None:
        api.services.mount_default(local)
        for check in local.checks:
            base.health.add(check, _is_well, only_ready=True)
    else:
        api.services.mount_default(RemoteWorkspaces(remote, local))
        tasks = (BackgroundTask("virtual-workspaces", remote.run),)
    if stores.mirror is None:
        address = base.credentials.serving_address
        cache = make_cache_server(stores.cache, access.authentication, Registry(), address)
        api.services.mount("cache", cache)
    if catalog.peers is not None:
        api.services.mount(
            "provisioning", _provisioning(base, stores.store, catalog, access, api, trash)
        )
    moving = shard_moves(stores.store, stores.hub, stores.moves, stores.sources.now, api.room)
    if catalog.peers is not None and base.has("LogicalClusterMigration"):
        from pykcp.virtual.moving import MovingWorkspace

        served = MovingWorkspace(moving.outgoing, moving.news)
        api.services.mount("moving", VirtualWorkspaces(_host(base, access, api), (served,)))
    where = WhereService(
        stores.store, catalog.paths, access.clusters, access.authentication, stores.hub
    )
    api.services.mount("where", where)
    console = base.settings.console.maker("shard", base.settings.sign_in)
    front: Application = FrontDoor(api.server, api.services, console)
    mappings = base.settings.shard.miniproxy_mapping_file
    if mappings:
        from pykcp.proxy.mapping import load_mappings
        from pykcp.proxy.mini import MiniProxy

        front = mini = MiniProxy(load_mappings(mappings, required=()), front)
        tasks = (*tasks, BackgroundTask("miniproxy", mini.run))
    return ViewsStage(front, trash, where, moving, tasks)


def _provisioning(
    base: Foundation,
    store: Store,
    catalog: CatalogStage,
    access: AccessStage,
    api: ApiStage,
    trash: Trash,
) -> VirtualWorkspaces:
    """What other shards ask of this one; served here even if virtual workspaces are not."""
    from pykcp.admission.plugins.kcp.deletion_protection import protected_below, shards_below
    from pykcp.controllers.kube.root_ca import ca_map
    from pykcp.controllers.tenancy.hosting import HostedClusters
    from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
    from pykcp.virtual.provisioning import ProvisioningWorkspace, WorkspacesBelow
    from pykcp.virtual.trash_requests import RestoreRights, TrashRequests

    shard, bundle = base.settings.shard.shard_name, base.credentials.root_ca
    now = Timestamps(time.time)
    provisioning = WorkspaceProvisioning(
        catalog.lookup, lambda namespace: ca_map(namespace, bundle), shard, now
    )
    client = LocalClient(catalog.directory, "system:serviceaccount:kube-system:kcp-workspace")
    hosted = HostedClusters(client, catalog.lookup, provisioning, shard, now)
    below = WorkspacesBelow(
        partial(protected_below, store, catalog.lookup),
        partial(shards_below, store, catalog.lookup),
    )
    requests = TrashRequests(trash, RestoreRights(access.authorizer))
    served = ProvisioningWorkspace(hosted, below, requests)
    return VirtualWorkspaces(_host(base, access, api), (served,))


def _host(base: Foundation, access: AccessStage, api: ApiStage) -> Host:
    return Host(
        shared=api.shared,
        authorizer=access.authorizer,
        presence=access.clusters.check,
        in_use=api.clusters.check,
        verbs=api.verbs,
        forward=api.server.take_over,
        remote=api.remote,
        address=base.credentials.serving_address,
        workers=base.workers,
    )


def _workspaces(
    base: Foundation,
    stores: StoresStage,
    catalog: CatalogStage,
    access: AccessStage,
    api: ApiStage,
    trash: Trash,
    far: FarTrash | None,
) -> tuple[VirtualWorkspace, ...]:
    settings = base.settings
    if not settings.shard.run_virtual_workspaces and not settings.shard.shard_virtual_workspace_url:
        return ()
    made = virtual_workspaces(
        stores.store,
        catalog.directory,
        catalog.bound,
        catalog.lookup,
        access.authorizer,
        stores.cache,
        access.clusters.inactive,
        trash,
        far,
        Copies(stores.store, catalog.lookup, trash, settings.shard.shard_name, api.room),
        catalog.peers,
        VirtualSettings(settings.shard.shard_name, settings.features.gates),
        OwnWork(api.shared.flow.meter) if api.shared.flow is not None else None,
    )
    parts = Parts(catalog.directory, catalog.lookup, access.authorizer)
    lister = LocalLister(stores.store, catalog.directory)
    return (*made, SyncerWorkspace(parts, lister, api.tunnels, api.pods, catalog.peers))


def _remote(base: Foundation) -> RemoteServer | None:
    """The process that serves virtual workspaces; None: they are served here."""
    settings = base.settings
    url = settings.shard.shard_virtual_workspace_url
    if settings.shard.run_virtual_workspaces or not url:
        return None
    return RemoteServer(url, Trust.of_files(settings.shard.shard_virtual_workspace_ca_file))


def _is_well() -> None:
    """A virtual workspace is ready as soon as it is served."""
