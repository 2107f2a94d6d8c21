"""The splitter as a whole: its controllers on one feed, inside a shard or in a program of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Client, Feed, Lister, ShardFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.splitting.aggregator import WorkloadAggregator
from pykcp.multicluster.splitting.detector import WorkloadDetector
from pykcp.multicluster.splitting.inventory import Inventory
from pykcp.multicluster.splitting.parts import SplitterParts, SplitterSettings
from pykcp.multicluster.splitting.scheduler import WorkloadScheduler
from pykcp.multicluster.splitting.splitter import WorkloadSplitter
from pykcp.multicluster.splitting.territory import Territory


class Splitting:
    """`follow` a feed, then `start`."""

    def __init__(
        self,
        lister: Lister,
        client: Client,
        settings: SplitterSettings | None = None,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.time,
        on_type: Callable[[GroupVersionResource], None] = lambda _: None,
    ) -> None:
        inventory = Inventory()
        self.parts = SplitterParts(
            lister,
            client,
            Territory(inventory, started=clock()),
            inventory,
            settings or SplitterSettings(),
            metrics,
            clock,
        )
        self.scheduler = WorkloadScheduler(self.parts)
        self.splitter = WorkloadSplitter(self.parts)
        self.aggregator = WorkloadAggregator(self.parts, self.scheduler.controller.add)
        self.detector = WorkloadDetector(
            self.parts, self.scheduler, self.splitter, self.aggregator, on_type
        )

    def follow(self, feed: Feed) -> None:
        self.detector.follow(feed)

    def follow_shard(self, feed: ShardFeed) -> None:
        """Follow all logical clusters of a shard. Objects are looked at when all Clusters are known;
        their old changes, which the log may hold, are not read.
        """
        self.detector.follow(feed)

        async def resume() -> None:
            feed.on_everything(self.detector.on_object)
            self.detector.survey_all()

        feed.at_start(resume)

    def start(self, owner: TaskOwner) -> None:
        for one in (self.detector, self.scheduler, self.splitter, self.aggregator):
            owner.start_restartable(f"controller/{one.controller.name}", one.controller.run)
