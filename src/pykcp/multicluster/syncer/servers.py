"""The two servers that a syncer connects, as it uses them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Protocol

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.informer import Informer, ObjectHolder
from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.syncer.types import Discovering

RELIST_SECONDS = 60.0
"""Between two full lists of a type, if the server keeps forgetting."""
_READY_SECONDS = 5.0
_MOST_READY, _SHOWN = 1 << 16, 300


class Follower(Protocol):
    """Tells a holder about all objects of a selection, and about their changes."""

    is_synced: asyncio.Event
    """Set when all objects were told once."""

    async def run(self) -> None:
        """Until cancelled."""


class Upstream(Protocol):
    """The control plane."""

    @property
    def client(self) -> Client: ...

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> Follower: ...


class DownstreamClient(Client, Discovering, Protocol):
    """Verbs and documents of a cluster."""


class Downstream(Protocol):
    """The cluster; its client is given the logical cluster ""."""

    @property
    def client(self) -> DownstreamClient: ...

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> Follower: ...

    async def readiness(self) -> str:
        """Why the cluster is not ready; empty if it is."""


class SyncServer:
    """Either of them over HTTP."""

    def __init__(self, client: RemoteClient, relist_seconds: float = RELIST_SECONDS) -> None:
        self.client = client
        self._relist_seconds = relist_seconds

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
        return f"/readyz answered {response.status}: {text[:_SHOWN].decode(errors='replace')}"

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> Informer[ObjectHolder]:
        return Informer(
            self.client,
            kind,
            held,
            cluster,
            labels=labels,
            relist_seconds=self._relist_seconds,
        )
