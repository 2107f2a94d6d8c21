"""The splitter as a whole: its controllers on one feed, inside a shard or in a program of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from pykcp.clients.interface import Client, Feed, Handler, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.elsewhere import ClustersElsewhere, NoOtherShards
from pykcp.multicluster.splitting.aggregator import WorkloadAggregator
from pykcp.multicluster.splitting.detector import WorkloadDetector
from pykcp.multicluster.splitting.inventory import Inventory
from pykcp.multicluster.splitting.parts import SplitterParts, SplitterSettings
from pykcp.multicluster.splitting.scheduler import WorkloadScheduler
from pykcp.multicluster.splitting.splitter import WorkloadSplitter
from pykcp.multicluster.splitting.territory import Territory


@runtime_checkable
class TypeFeed(Protocol):
    """The feed of another server, which follows what it is told to."""

    def on_type(self, workspace: str, kind: GroupVersionResource, handler: Handler) -> None:
        """Call the handler for every object of a type in a workspace, and for every change; once,
        however often it is asked for.
        """


class Splitting:
    """`follow` a feed, `load` what there is, then run the controllers."""

    def __init__(
        self,
        lister: Lister,
        client: Client,
        settings: SplitterSettings | None = None,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.time,
        elsewhere: ClustersElsewhere | None = None,
    ) -> None:
        """`elsewhere`: Clusters of other shards that may serve workspaces of this one."""
        inventory = Inventory()
        self.parts = SplitterParts(
            lister,
            client,
            Territory(inventory, started=clock()),
            inventory,
            settings or SplitterSettings(),
            metrics,
            clock,
            elsewhere or NoOtherShards(),
        )
        self._feed: TypeFeed | None = None
        self.splitter = WorkloadSplitter(self.parts)
        self.scheduler = WorkloadScheduler(self.parts, self.splitter.first_leaves)
        self.aggregator = WorkloadAggregator(self.parts, self.scheduler.controller.add)
        self.detector = WorkloadDetector(
            self.parts, self.scheduler, self.splitter, self.aggregator, self._follow_type
        )

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        parts = (self.detector, self.scheduler, self.splitter, self.aggregator)
        return tuple(one.controller for one in parts)

    def follow(self, feed: Feed) -> None:
        """A shard tells all changes of all objects; of another server only the types are followed
        that some cluster accepts.
        """
        self.detector.follow(feed)
        everything = getattr(feed, "on_everything", None)
        if everything is not None:
            everything(self.detector.on_object)
        else:
            assert isinstance(feed, TypeFeed)
            self._feed = feed

    def _follow_type(self, workspace: str, kind: GroupVersionResource) -> None:
        if self._feed is not None:
            self._feed.on_type(workspace, kind, self.detector.on_object)

    async def load(self) -> None:
        await self.detector.load()
