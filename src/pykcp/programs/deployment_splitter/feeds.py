"""The feed of `deployment-splitter`: its own kinds in all workspaces, workloads in those served.

Types of workloads differ from workspace to workspace, so that there is no list of all of them:
each workspace that a Cluster serves is followed by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Handler
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.feed import NotFollowed, RemoteFeed, RemoteLister
from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object

ALL = "*"


class WorkloadFeed(RemoteFeed):
    def __init__(self, client: RemoteClient, workspace: str = ALL) -> None:
        """`workspace`: follow nothing but this one."""
        super().__init__(client, workspace)
        self._workspaces: dict[str, RemoteFeed] = {}
        self._types: set[tuple[str, GroupVersionResource]] = set()
        self._running: TaskOwner | None = None
        self.lister = _WorkloadLister(self.lister, self._workspaces.get)

    def on_type(self, workspace: str, kind: GroupVersionResource, handler: Handler) -> None:
        """See `TypeFeed`."""
        if (workspace, kind) in self._types:
            return
        self._types.add((workspace, kind))
        feed = self._workspaces.get(workspace)
        if feed is None:
            feed = self._workspaces[workspace] = RemoteFeed(self._client, workspace)
            self._start(workspace, feed)
        feed.on(kind, handler)

    def _start(self, workspace: str, feed: RemoteFeed) -> None:
        if self._running is not None:
            self._running.start_restartable(f"workspace/{workspace}", feed.run)

    async def run(self) -> None:
        async with TaskOwner("workload-feed") as owner:
            self._running = owner
            for workspace, feed in self._workspaces.items():
                self._start(workspace, feed)
            try:
                await super().run()
            finally:
                self._running = None


class _WorkloadLister(RemoteLister):
    """Asks the feed of a workspace for what is followed there."""

    def __init__(self, own: RemoteLister, feed_of: Callable[[str], RemoteFeed | None]) -> None:
        super().__init__(own.informers, own.kinds)
        self._feed_of = feed_of

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        try:
            return super().get(cluster, kind, name, namespace)
        except NotFollowed:
            feed = self._feed_of(cluster)
            if feed is None:
                raise
            return feed.lister.get(cluster, kind, name, namespace)
