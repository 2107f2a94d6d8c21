"""Multi-cluster in a shard: nothing of it is imported or runs before the first Cluster exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pykcp.aio.imports import import_aside
from pykcp.aio.owner import TaskOwner
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change, ShardFeed
from pykcp.clients.outbound import Outbound
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.machinery.resources import API_BINDINGS, LOGICAL_CLUSTERS
from pykcp.observe.metrics import Registry
from pykcp.programs.shard.multicluster.known import (
    CLUSTERS,
    ShardsWithClusters,
    allowed_addresses,
    consumers_of,
    providers_of,
)
from pykcp.registry.local_lister import LocalLister
from pykcp.server.large.worker_calls import compute
from pykcp.workers.pool import WorkerPool

if TYPE_CHECKING:
    from pykcp.multicluster.all import MulticlusterControllers
    from pykcp.multicluster.clusters.settings import ClusterSettings
    from pykcp.multicluster.elsewhere import ClustersElsewhere
    from pykcp.multicluster.splitting.parts import SplitterSettings

_NAME = "multicluster"
_LOGICAL_CLUSTER = "cluster"
"""The name of every LogicalCluster."""
_DELETION = b'"deletionTimestamp"'
_KEEP = 4096
_ACCOUNT = "system:kcp:controller:{}"


class _Starter(Controller[str]):
    """Runs the controllers of multi-cluster from the time when they are first needed."""

    def __init__(
        self, make: Callable[[], MulticlusterControllers], metrics: ControllerMetrics
    ) -> None:
        super().__init__(_NAME, self._start, workers=1, metrics=metrics)
        self._make = make
        self._made: MulticlusterControllers | None = None
        self._owner: TaskOwner | None = None
        self._is_running = False

    @property
    def is_started(self) -> bool:
        return self._is_running

    async def run(self) -> None:
        async with TaskOwner(_NAME) as owner:
            self._owner, self._is_running = owner, False
            await super().run()

    async def _start(self, _: str) -> None:
        if self._is_running:
            return
        self._is_running = True
        assert self._owner is not None
        if self._made is None:
            await import_aside("pykcp.multicluster.all")
            await import_aside("pykcp.multicluster.clusters.pushing")
            self._made = self._make()
        self._owner.start_restartable("controllers", self._made.run)


class MulticlusterOnDemand:
    """A follower of Clusters, see `ControllerSpec`."""

    def __init__(
        self,
        lister: LocalLister,
        make_client: Callable[[str], ShardClient],
        syncer_client: Callable[[str], ShardClient],
        egress: Outbound,
        settings: Callable[[], ClusterSettings],
        splitting: Callable[[], SplitterSettings | None],
        metrics: ControllerMetrics,
        registry: Registry,
        workers: WorkerPool | None,
        others: ShardsWithClusters | None,
    ) -> None:
        """`others`: None if there are no other shards."""
        self._workers, self._others = workers, others
        self._deleted: BoundedCache[str, bool] = BoundedCache("deleted_workspaces", _KEEP)
        self._lister, self._make_client, self._egress = lister, make_client, egress
        self._syncer_client = syncer_client
        self._settings, self._metrics, self._registry = settings, metrics, registry
        self._splitting = splitting
        self._feed: ShardFeed | None = None
        self.controller = _Starter(self._made, metrics)

    def follow(self, feed: ShardFeed) -> None:
        self._feed = feed
        feed.on(CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)
        if self._others is not None:
            feed.on(API_BINDINGS, self._on_binding)
            feed.on(LOGICAL_CLUSTERS, self._on_logical_cluster)
            self._others.follow(self._on_cluster_elsewhere)

    def _on_cluster(self, _: Change) -> None:
        if not self.controller.is_started:
            self.controller.add(_NAME)

    def _on_cluster_elsewhere(self, workspace: str, _: str) -> None:
        if not self.controller.is_started and self._consumers(workspace):
            self.controller.add(_NAME)

    def _on_binding(self, change: Change) -> None:
        if not self.controller.is_started and self._is_served_from_elsewhere(change.cluster):
            self.controller.add(_NAME)

    def _is_served_from_elsewhere(self, workspace: str) -> bool:
        others = self._others
        if others is None or not others.have_clusters():
            return False
        return any(map(others.have_clusters, providers_of(self._lister, workspace)))

    def _on_logical_cluster(self, change: Change) -> None:
        if change.deleted and _DELETION in change.value:  # otherwise it moved to another shard
            self._deleted.put(change.cluster, True)

    async def _resume(self) -> None:
        providers = self._others.workspaces() if self._others is not None else ()
        if self._lister.keys(CLUSTERS, limit=1) or any(map(self._consumers, providers)):
            self.controller.add(_NAME)

    def _made(self) -> MulticlusterControllers:
        from pykcp.multicluster.all import MulticlusterControllers, MulticlusterParts
        from pykcp.multicluster.clusters.consumed import ConsumedClusters
        from pykcp.multicluster.clusters.pushing import PushSyncers
        from pykcp.multicluster.computing import compute_here
        from pykcp.multicluster.elsewhere import NoOtherShards
        from pykcp.multicluster.syncer.feed import FeedUpstream
        from pykcp.multicluster.syncer.metrics import SyncMetrics

        assert self._feed is not None
        client = self._syncer_client(_ACCOUNT.format("syncer"))
        upstream = FeedUpstream(client, self._feed, self._consumers, self._hosts)
        settings, metrics = self._settings(), SyncMetrics(self._registry)
        elsewhere: ClustersElsewhere = NoOtherShards()
        consumed = None
        if self._others is not None:
            elsewhere = self._others.clusters(self._lister)
            consumed = ConsumedClusters(elsewhere, upstream, settings.mode, metrics, self._metrics)
        return MulticlusterControllers(
            MulticlusterParts(
                feed=self._feed,
                lister=self._lister,
                client=self._account,
                settings=settings,
                splitting=self._splitting(),
                make_syncer=PushSyncers(upstream, metrics=metrics),
                consumers=self._consumers,
                elsewhere=elsewhere,
                consumed=consumed,
                resolve=self._resolve,
                compute=partial(compute, self._workers) if self._workers else compute_here,
                metrics=self._metrics,
            )
        )

    def _consumers(self, workspace: str) -> set[str]:
        return consumers_of(self._lister, workspace, self._others)

    def _hosts(self, workspace: str) -> bool:
        """Whether a workspace is, or was until its deletion, on this shard."""
        if self._others is None or workspace in self._deleted:
            return True
        return self._lister.has(workspace, LOGICAL_CLUSTERS, _LOGICAL_CLUSTER)

    def _account(self, name: str) -> ShardClient:
        return self._make_client(_ACCOUNT.format(name))

    async def _resolve(self, cluster: str, host: str, port: int) -> tuple[str, ...]:
        return await allowed_addresses(self._egress, cluster, host, port)
