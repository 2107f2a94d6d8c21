"""The two servers that a syncer connects, as it uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Protocol

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.informer import Informer, ObjectHolder
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import ServiceUnavailable, Unauthorized
from pykcp.multicluster.readiness import failure
from pykcp.multicluster.syncer.types import Discovering
from pykcp.types import Object

RELIST_SECONDS = 60.0
_UNREACHABLE_PAUSE, _CONNECTED_PAUSE = 3.0, 1.0
"""Seconds between attempts to reach a server that is away, and to watch one that ends watches."""
"""Between two full lists of a type, if the server keeps forgetting."""
_READY_SECONDS = 5.0
_UNAUTHORIZED_PAUSE = 2.0
_MOST_READY = 1 << 16


class Follower(Protocol):
    """Tells a holder about all objects of a selection, and about their changes."""

    is_synced: asyncio.Event
    """Set when all objects were told once."""

    async def run(self) -> None:
        """Until cancelled."""


class FollowEvents(Protocol):
    """What happens to the followers of a server."""

    def connected(self, kind: GroupVersionResource) -> None:
        """The server answers; before, it did not."""

    def failed(self, kind: GroupVersionResource, error: Exception) -> None:
        """A list or a watch failed."""


class LeafHolder(ObjectHolder, Protocol):
    """Holds objects of the control plane; it also takes them as they were read."""

    def note(self, obj: Object) -> object: ...


class Upstream(Protocol):
    """The control plane."""

    @property
    def client(self) -> Client: ...

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: LeafHolder
    ) -> Follower: ...

    def consumers(self, workspace: str) -> Iterable[str]:
        """Other workspaces that the clusters of a workspace serve."""

    def follow_consumers(
        self, kind: GroupVersionResource, workspace: str, labels: str, held: LeafHolder
    ) -> Follower | None:
        """Their objects; None if this connection does not show them."""

    def hosts(self, workspace: str) -> bool:
        """Whether an object of a workspace that is not found here does not exist: it may be that
        another server has the whole workspace.
        """


class DownstreamClient(Client, Discovering, Protocol):
    """Verbs and documents of a cluster."""


class Downstream(Protocol):
    """The cluster; its client is given the logical cluster ""."""

    @property
    def client(self) -> DownstreamClient: ...

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> Follower: ...

    def listen(self, events: FollowEvents) -> None:
        """Tell this about its followers, from now on."""

    async def readiness(self) -> str:
        """Why the cluster is not ready; empty if it is."""


class SyncServer:
    """Either of them over HTTP."""

    def __init__(self, client: RemoteClient, relist_seconds: float = RELIST_SECONDS) -> None:
        self.client = client
        self._relist_seconds = relist_seconds
        self._events: FollowEvents | None = None
        self._answers = asyncio.Event()

    def listen(self, events: FollowEvents) -> None:
        self._events = events

    def answers(self) -> None:
        """The server answers again: followers that wait for it try at once."""
        self._answers.set()
        self._answers = asyncio.Event()

    async def wait_for_answers(self, seconds: float) -> None:
        """Wait until the server answers another follower, and at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._answers.wait()

    def consumers(self, workspace: str) -> Iterable[str]:
        return ()

    def follow_consumers(
        self, kind: GroupVersionResource, workspace: str, labels: str, held: ObjectHolder
    ) -> Follower | None:
        """None: an account of one workspace does not see others."""
        return None

    def hosts(self, workspace: str) -> bool:
        return True

    async def readiness(self) -> str:
        """Why the server is not ready; empty if it is."""
        client = self.client
        try:
            async with asyncio.timeout(_READY_SECONDS):
                response = await client.http.request("GET", "/readyz", client.headers("*/*"))
                text = await response.read(_MOST_READY)
        except TimeoutError:
            return "the server does not answer"
        except SendFailed as error:
            return f"the server cannot be reached: {error}"
        if response.status == HTTPStatus.OK:
            return ""
        return failure(response.status, text)

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> Informer[ObjectHolder]:
        return WatchedInformer(
            self,
            kind,
            held,
            cluster,
            labels=labels,
            relist_seconds=self._relist_seconds,
            events=self._events,
        )


class WatchedInformer(Informer[ObjectHolder]):
    """Tells how it fares. A server that cannot be reached is tried again soon, and so are
    credentials that are not accepted: they are replaced without notice.
    """

    def __init__(
        self,
        server: SyncServer,
        kind: GroupVersionResource,
        held: ObjectHolder,
        cluster: str,
        *,
        labels: str,
        relist_seconds: float,
        events: FollowEvents | None,
    ) -> None:
        super().__init__(
            server.client, kind, held, cluster, labels=labels, relist_seconds=relist_seconds
        )
        self._server, self._followed, self._events = server, kind, events
        self._has_failed = False

    def connected(self) -> None:
        if self._has_failed:
            self._has_failed = False
            self._server.answers()
            if self._events is not None:
                self._events.connected(self._followed)
        # Not the shortest pause: a server may accept watches and end them at once.
        self._pause = min(self._pause, _CONNECTED_PAUSE)

    def report(self, error: Exception) -> None:
        super().report(error)
        self._has_failed = True
        if self._events is not None:
            self._events.failed(self._followed, error)

    async def rest(self, seconds: float, failure: Exception | None) -> None:
        if isinstance(failure, Unauthorized):
            seconds = min(seconds, _UNAUTHORIZED_PAUSE)
        elif isinstance(failure, SendFailed | ServiceUnavailable):
            seconds = min(seconds, _UNREACHABLE_PAUSE)
        await self._server.wait_for_answers(seconds)
