"""Multi-cluster in a shard: nothing of it is imported or runs before the first Cluster exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pykcp.aio.imports import import_aside
from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.kcp.hashes import export_label_value
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, GroupVersionResource
from pykcp.observe.metrics import Registry
from pykcp.registry.indexes.apis import bindings_of

if TYPE_CHECKING:
    from pykcp.multicluster.all import MulticlusterControllers
    from pykcp.multicluster.clusters.settings import ClusterSettings
    from pykcp.multicluster.splitting.parts import SplitterSettings
    from pykcp.server.call import Call, Handler
    from pykcp.server.handlers.placed_pods import PlacedPods

_CLUSTERS = GroupVersionResource("workload.kcp.dev", "v1alpha1", "clusters")
_NAME = "multicluster"


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
        lister: Lister,
        make_client: Callable[[str], ShardClient],
        egress: Outbound,
        settings: Callable[[], ClusterSettings],
        splitting: Callable[[], SplitterSettings | None],
        metrics: ControllerMetrics,
        registry: Registry,
    ) -> None:
        self._lister, self._make_client, self._egress = lister, make_client, egress
        self._settings, self._metrics, self._registry = settings, metrics, registry
        self._splitting = splitting
        self._feed: ShardFeed | None = None
        self.controller = _Starter(self._made, metrics)

    def follow(self, feed: ShardFeed) -> None:
        self._feed = feed
        feed.on(_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)

    def _on_cluster(self, _: Change) -> None:
        if not self.controller.is_started:
            self.controller.add(_NAME)

    async def _resume(self) -> None:
        if self._lister.keys(_CLUSTERS, limit=1):
            self.controller.add(_NAME)

    def _made(self) -> MulticlusterControllers:
        from pykcp.multicluster.all import MulticlusterControllers, MulticlusterParts
        from pykcp.multicluster.clusters.pushing import PushSyncers
        from pykcp.multicluster.syncer.feed import FeedUpstream
        from pykcp.multicluster.syncer.metrics import SyncMetrics

        assert self._feed is not None
        upstream = FeedUpstream(self._account("syncer"), self._feed, self._consumers)
        return MulticlusterControllers(
            MulticlusterParts(
                feed=self._feed,
                lister=self._lister,
                client=self._account,
                settings=self._settings(),
                splitting=self._splitting(),
                make_syncer=PushSyncers(upstream, metrics=SyncMetrics(self._registry)),
                resolve=self._resolve,
                metrics=self._metrics,
            )
        )

    def _consumers(self, workspace: str) -> set[str]:
        """Workspaces that bind an API of a workspace; those of root are bound by all."""
        if workspace == ROOT:
            return set()
        return {
            ref.cluster
            for export in self._lister.keys(API_EXPORTS, workspace)
            for ref in self._lister.find(
                bindings_of(export_label_value(workspace, export.name)), API_BINDINGS
            )
        }

    def _account(self, name: str) -> ShardClient:
        return self._make_client(f"system:kcp:controller:{name}")

    async def _resolve(self, cluster: str, host: str, port: int) -> tuple[str, ...]:
        return await _allowed_addresses(self._egress, cluster, host, port)


async def _allowed_addresses(
    egress: Outbound, cluster: str, host: str, port: int
) -> tuple[str, ...]:
    if not host:
        raise SendFailed("no Host in request URL")
    return await egress.addresses(host, port, Tenant(cluster))


class PodsOnDemand:
    """Requests for pods of workspaces with Clusters; for others it costs a lookup."""

    def __init__(self, lister: Lister, client: Client, egress: Outbound) -> None:
        self._lister, self._client, self._egress = lister, client, egress
        self._placed: PlacedPods | None = None

    def find(self, call: Call) -> Handler | None:
        """The handler of a request for pods; None if they are all stored."""
        if not (self._has_clusters(call.cluster) or self._is_served(call.cluster)):
            return None
        if self._placed is None:
            from pykcp.multicluster.through.clusters import WorkspaceClusters
            from pykcp.server.handlers.placed_pods import PlacedPods

            resolve = partial(_allowed_addresses, self._egress)
            self._placed = PlacedPods(WorkspaceClusters(self._client, self._has_clusters, resolve))
        return self._placed.find(call)

    def _has_clusters(self, cluster: str) -> bool:
        return bool(self._lister.keys(_CLUSTERS, cluster, limit=1))

    def _is_served(self, cluster: str) -> bool:
        """Whether the logical cluster binds an API of one that has Clusters."""
        if not self._lister.keys(_CLUSTERS, limit=1):
            return False
        bindings = (
            self._lister.get(cluster, API_BINDINGS, key.name) or {}
            for key in self._lister.keys(API_BINDINGS, cluster)
        )
        providers = {
            (one.get("status") or {}).get("apiExportClusterName") or "" for one in bindings
        }
        return any(self._has_clusters(one) for one in providers - {"", ROOT})
