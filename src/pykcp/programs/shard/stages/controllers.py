"""The last stage: the controllers of a shard whose bootstrap objects exist."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykcp.cache.publishing import CachePublisher
from pykcp.controllers import kcp as kcp_controllers
from pykcp.controllers.kube import all as kube_controllers
from pykcp.controllers.runtime.manager import ControllerSet, join
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.parts import ControllerParts
from pykcp.programs.shard.multicluster.controllers import MulticlusterOnDemand
from pykcp.programs.shard.multicluster.known import shards_with_clusters
from pykcp.programs.shard.stages.api import ApiStage
from pykcp.programs.shard.stages.catalog import CatalogStage
from pykcp.programs.shard.stages.foundation import Foundation
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.programs.shard.stages.views import ViewsStage
from pykcp.registry.cluster_content import ClusterContent
from pykcp.registry.local import LocalClient
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.log_feed import LogFeed
from pykcp.server.filters.flow_own_work import OwnWork
from pykcp.server.large.worker_calls import compute


def build_controllers(
    base: Foundation, stores: StoresStage, catalog: CatalogStage, api: ApiStage, views: ViewsStage
) -> ControllerSet:
    settings, credentials = base.settings, base.credentials
    metrics = ControllerMetrics(base.metrics)
    lister = LocalLister(stores.store, catalog.directory)
    make_client = partial(LocalClient, catalog.directory)
    followers = kube_controllers.make(
        lister=lister,
        make_client=make_client,
        hub=stores.hub,
        directory=catalog.directory,
        metrics=metrics,
        ca_bundle=credentials.root_ca,
        sign_token=credentials.sign_secret_token,
        event_ttl=settings.tenancy.event_ttl,
        quotas=api.quotas,
        bound=catalog.bound.definitions,
        for_content=settings.generic.run_kubernetes_controllers,
        compute=partial(compute, base.workers) if base.workers is not None else None,
    )
    parts = ControllerParts(
        lister=lister,
        make_client=make_client,
        directory=catalog.directory,
        bound=catalog.bound,
        lookup=catalog.lookup,
        metrics=metrics,
        registry=base.metrics,
        shard_name=settings.shard.shard_name,
        gates=settings.features.gates,
        peers=catalog.peers,
    )
    followers += kcp_controllers.make(
        parts,
        content=ClusterContent(stores.store, catalog.directory),
        ca_bundle=credentials.root_ca,
        published=_published(base, stores),
        trash=views.trash,
        moving=views.moving,
    )
    if settings.multicluster.cluster_controllers:
        followers.append(
            MulticlusterOnDemand(
                lister,
                make_client,
                _syncer_client(catalog, api),
                base.egress.mounts,
                settings.multicluster.cluster_settings,
                settings.splitting.shard_settings,
                metrics,
                base.metrics,
                base.workers,
                shards_with_clusters(catalog.lookup, catalog.peers),
            )
        )
    return join(LogFeed(stores.store), followers)


def _syncer_client(catalog: CatalogStage, api: ApiStage) -> Callable[[str], LocalClient]:
    """Clients that charge the workspaces to which they write, if costs are measured."""
    flow = api.shared.flow
    if flow is None:
        return partial(LocalClient, catalog.directory)
    from pykcp.programs.shard.multicluster.charged import ChargedClient

    return partial(ChargedClient, catalog.directory, work=OwnWork(flow.meter))


def _published(base: Foundation, stores: StoresStage) -> CachePublisher:
    """This shard's part of the cache."""
    if stores.mirror is None:
        return CachePublisher(stores.cache, base.settings.shard.shard_name)
    from pykcp.cache.remote_part import RemotePublisher

    return RemotePublisher(stores.mirror)
