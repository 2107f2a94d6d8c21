"""All controllers of multi-cluster, made and run together: in a shard, or as a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.multicluster.clusters.connection import Resolve, resolve_any
from pykcp.multicluster.clusters.consumed import ConsumedClusters
from pykcp.multicluster.clusters.controller import ClusterLifecycle
from pykcp.multicluster.clusters.pushed import MakeSyncer
from pykcp.multicluster.clusters.served import ServedWorkspaces
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.elsewhere import ClustersElsewhere, NoOtherShards
from pykcp.multicluster.importing.exporting import TypeExports
from pykcp.multicluster.importing.negotiator import Negotiator
from pykcp.multicluster.importing.table import ImportTable
from pykcp.multicluster.splitting.engine import Splitting
from pykcp.multicluster.splitting.parts import SplitterSettings


@dataclass(frozen=True, slots=True)
class MulticlusterParts:
    """What the controllers are made of."""

    feed: Feed
    lister: Lister
    client: Callable[[str], Client]
    """A client that acts as the controller of this name."""
    settings: ClusterSettings = field(default_factory=ClusterSettings)
    splitting: SplitterSettings | None = None
    """None: workloads are placed by another program, or not at all."""
    make_syncer: MakeSyncer | None = None
    consumers: Callable[[str], Iterable[str]] = lambda _: ()
    """Workspaces of the same server that bind an API of a workspace."""
    resolve: Resolve = resolve_any
    compute: Compute = compute_here
    metrics: ControllerMetrics | None = None
    elsewhere: ClustersElsewhere = field(default_factory=NoOtherShards)
    """Clusters of other shards that may serve workspaces of this one."""
    consumed: ConsumedClusters | None = None
    """Syncers for them; None if there are no other shards."""


class MulticlusterControllers:
    """`run` them; all objects that exist are looked at first."""

    def __init__(self, parts: MulticlusterParts) -> None:
        self._parts = parts
        self._table = ImportTable(parts.lister)
        self._clusters = ClusterLifecycle(
            parts.lister,
            parts.client("cluster-lifecycle"),
            self._table,
            parts.settings,
            parts.make_syncer,
            resolve=parts.resolve,
            compute=parts.compute,
            metrics=parts.metrics,
            served=ServedWorkspaces(
                parts.client("cluster-lifecycle"), parts.consumers, parts.elsewhere
            ),
        )
        self._negotiator = Negotiator(
            parts.lister,
            parts.client("api-negotiation"),
            self._table,
            publishes=parts.settings.publishes_types,
            compute=parts.compute,
            metrics=parts.metrics,
        )
        self._exports = TypeExports(
            parts.lister, parts.client("api-exporting"), metrics=parts.metrics
        )
        for one in (self._table, self._clusters, self._negotiator, self._exports):
            one.follow(parts.feed)
        self._splitting: Splitting | None = None
        if parts.splitting is not None:
            client = parts.client("deployment-splitter")
            self._splitting = Splitting(
                parts.lister, client, parts.splitting, parts.metrics, elsewhere=parts.elsewhere
            )
            self._splitting.follow(parts.feed)
        if parts.consumed is not None:
            parts.consumed.follow(parts.feed)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with TaskOwner("multicluster") as owner:
                await self._start(owner)
                await asyncio.Event().wait()
        finally:
            # After the controllers, which could begin new sessions.
            await self._clusters.stop()
            if self._parts.consumed is not None:
                await self._parts.consumed.stop()

    async def _start(self, owner: TaskOwner) -> None:
        await self._table.load()
        controllers: list[Controller[Any]] = [
            self._clusters.controller,
            self._negotiator.controller,
            self._exports.controller,
        ]
        if self._splitting is not None:
            await self._splitting.load()
            controllers += self._splitting.controllers
        consumed = self._parts.consumed
        if consumed is not None:
            controllers.append(consumed.controller)
        for controller in controllers:
            owner.start_restartable(controller.name, controller.run)
        self._clusters.add_all()
        self._exports.add_all()
        if consumed is not None:
            consumed.add_all()
