"""The other shards of an installation, by name: where they are, and clients for them.

`Peers` reads Shard objects from the shard's own store or from its replica of the cache, which is
on disk: a shard that starts while root and the cache are away still knows the others.
Requests carry the shard's own client certificate, which makes it a member of `system:masters`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.clients.http.client import HttpClient
from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of, http_of
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import SHARDS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.types import Object
from pykcp.wire.settings import WITHIN_INSTALLATION, ClientSettings

_PAUSE_SECONDS = 1.0
"""How long a shard that did not answer is not asked again."""
_DEADLINE_SECONDS = 10.0


class Peer(NamedTuple):
    """A shard as its Shard object describes it."""

    name: str
    base_url: str
    external_url: str
    virtual_workspace_url: str

    @classmethod
    def of(cls, shard: Object) -> Peer:
        spec = shard.get("spec") or {}
        base = spec.get("baseURL") or ""
        return cls(
            shard["metadata"]["name"],
            base,
            spec.get("externalURL") or base,
            spec.get("virtualWorkspaceURL") or base,
        )


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """How other servers of the installation are reached, and with which credentials."""

    shards: KubeconfigServer
    """For any shard: its address is replaced by that of the Shard object."""
    root: KubeconfigServer | None = None
    """The root shard, known before any Shard object is; None if this is the root shard."""


class UnknownPeer(ServiceUnavailable):
    def __init__(self, name: str) -> None:
        super().__init__(f'shard "{name}" is not known here')


class DeadPeer(ServiceUnavailable):
    def __init__(self, name: str) -> None:
        super().__init__(f'shard "{name}" does not answer')


class _Connected:
    """The client of one peer, and when a request to it failed last."""

    def __init__(self, peer: Peer, access: KubeconfigServer, manager: str) -> None:
        self.peer = peer
        self.is_alive = True
        self.failed_at = 0.0
        self.client = client_of(
            access,
            manager,
            url=peer.base_url,
            timeout=_DEADLINE_SECONDS,
            on_outcome=self._note,
            settings=WITHIN_INSTALLATION,
        )

    def _note(self, is_answered: bool) -> None:
        self.is_alive = is_answered
        if not is_answered:
            self.failed_at = time.monotonic()


class Peers:
    """`run` it: its connections are closed at the end."""

    def __init__(
        self,
        own: str,
        access: PeerAccess,
        find: Callable[[str], Object | None],
        list_all: Callable[[], Iterable[Object]],
        manager: str = "kcp-shard",
    ) -> None:
        """`find`, `list_all`: Shard objects; `own`: the name of this shard, which is no peer."""
        self.own = own
        self._access, self._manager = access, manager
        self._find, self._list_all = find, list_all
        self._connected: dict[str, _Connected] = {}
        self._root: RemoteClient | None = None

    # --- which shards there are

    @property
    def is_root(self) -> bool:
        """Whether this is the root shard, which knows the others itself."""
        return self._access.root is None

    def names(self) -> list[str]:
        """All other shards, in order."""
        names = {shard["metadata"]["name"] for shard in self._list_all()}
        return sorted(names - {self.own})

    def find(self, name: str) -> Peer | None:
        shard = self._find(name)
        if shard is None:
            return None
        peer = Peer.of(shard)
        return peer if peer.base_url else None

    def get(self, name: str) -> Peer:
        """Raises UnknownPeer."""
        peer = self.find(name)
        if peer is None:
            raise UnknownPeer(name)
        return peer

    # --- requests

    def client(self, name: str) -> RemoteClient:
        """A client of a shard, with all rights there.

        Raises UnknownPeer; DeadPeer for a moment after the shard did not answer, so that many
        requests do not all wait for it.
        """
        connected = self._connection(self.get(name))
        if not connected.is_alive and time.monotonic() < connected.failed_at + _PAUSE_SECONDS:
            raise DeadPeer(name)
        return connected.client

    def has_answered(self, name: str) -> bool:
        """Whether a shard answered when it was asked last; True if it never was."""
        connected = self._connected.get(name)
        return connected is None or connected.is_alive

    def connections(self, name: str, settings: ClientSettings, tenant: str) -> HttpClient:
        """New connections to a shard, for what a tenant's server sends through it; close them at
        the end. Raises UnknownPeer.
        """
        url = self.get(name).base_url
        return http_of(self._access.shards, url, settings=settings, tenant=tenant)

    async def listed(self) -> list[Object]:
        """The Shard objects of all others, as the root shard has them now. Raises StatusError."""
        if self._access.root is None:
            shards = list(self._list_all())
        else:
            shards = await self.root().list(clusters.ROOT, SHARDS)
        return [shard for shard in shards if shard["metadata"]["name"] != self.own]

    def client_at(self, shard: Object) -> RemoteClient:
        """A client for a Shard object, whether or not the shard is known here."""
        return self._connection(Peer.of(shard)).client

    def _connection(self, peer: Peer) -> _Connected:
        connected = self._connected.get(peer.name)
        if connected is None or connected.peer.base_url != peer.base_url:
            if connected is not None:  # the shard has moved to another address
                connected.client.http.close()
            connected = _Connected(peer, self._access.shards, self._manager)
            self._connected[peer.name] = connected
        return connected

    def root(self) -> RemoteClient:
        """A client of the root shard, which may not be known as a Shard object yet."""
        if self._root is None:
            assert self._access.root is not None
            self._root = client_of(
                self._access.root,
                self._manager,
                timeout=_DEADLINE_SECONDS,
                settings=WITHIN_INSTALLATION,
            )
        return self._root

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        try:
            await asyncio.Event().wait()
        finally:
            for connected in self._connected.values():
                connected.client.http.close()
            if self._root is not None:
                self._root.http.close()
