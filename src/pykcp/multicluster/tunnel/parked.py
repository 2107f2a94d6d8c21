"""The side of the control plane: connections that syncers keep open for it, and clients over them.

A syncer opens a few connections, which wait here. A request takes one, and the syncer opens the
next. HTTP/2 carries many requests on one; commands and ports have a connection each.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from secrets import token_hex

from pykcp.aio.owner import spawn_detached
from pykcp.aio.timers import call_later
from pykcp.caching import BoundedCache
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.multicluster.clusters.connection import TENANT_SETTINGS
from pykcp.multicluster.tunnel import IDLE_SECONDS, SERVER_HEADER, SERVERS_HEADER
from pykcp.multicluster.tunnel.bridge import BACKLOG, SocketBridge
from pykcp.wire.exchange import Exchange, Header, Tunnel

_log = logging.getLogger(__name__)
_MOST_TUNNELS = 1024
_MOST_PARKED = 8
_WAIT_SECONDS = 10.0
"""For which a request waits for the syncer to open another connection."""
_HOST = "syncer"


class _ParkedConnection:
    """A connection of a syncer; a `BodySink` of what the syncer sends on it."""

    def __init__(self) -> None:
        self.tunnel: Tunnel | None = None
        self._bridge: SocketBridge | None = None
        self.is_gone = False

    def use(self, near: socket.socket) -> None:
        """Connect a socket of this process with it."""
        tunnel = self.tunnel
        assert tunnel is not None
        self._bridge = bridge = SocketBridge(_TunnelEnd(tunnel, self))
        _ = spawn_detached(bridge.open(near), "tunnel")

    def relieved(self) -> None:
        if self._bridge is not None:
            self._bridge.relieved()

    # --- what the syncer sends

    def write(self, data: bytes) -> None:
        if self._bridge is not None:
            self._bridge.take(data)
        elif self.tunnel is not None:  # it speaks only when it is spoken to
            self.tunnel.abort()

    def end(self) -> None:
        self.is_gone = True
        if self._bridge is not None:
            self._bridge.close()

    def fail(self, _: Exception) -> None:
        self.end()


class _TunnelEnd:
    """See `FarEnd`."""

    def __init__(self, tunnel: Tunnel, parked: _ParkedConnection) -> None:
        self._tunnel, self._parked = tunnel, parked

    @property
    def backlog(self) -> int:
        return self._tunnel.backlog

    def write(self, data: bytes) -> None:
        self._tunnel.write(data)
        if self._tunnel.backlog > BACKLOG:
            self._tunnel.when_relieved(self._parked.relieved)

    def end(self) -> None:
        self._tunnel.end()

    def consumed(self, size: int) -> None:
        self._tunnel.consumed(size)


class SyncerTunnel:
    """The connections of one Cluster's syncer."""

    def __init__(self, tenant: str) -> None:
        self._parked: deque[_ParkedConnection] = deque()
        self._waiting: deque[tuple[float, socket.socket]] = deque()
        self._seen = 0.0
        server = Server("http", _HOST, 80, connect=self._connect)
        self.http = HttpClient(server, TENANT_SETTINGS, tenant)

    @property
    def is_open(self) -> bool:
        """Whether the syncer is connected, or was a moment ago."""
        self._drop_gone()
        return bool(self._parked) or time.monotonic() - self._seen < _WAIT_SECONDS

    def park(self, exchange: Exchange, headers: Sequence[Header]) -> Tunnel:
        """Keep the connection of a request that asked to switch protocols."""
        self._drop_gone()
        parked = _ParkedConnection()
        parked.tunnel = exchange.tunnel(headers, parked)
        self._seen = time.monotonic()
        while self._waiting:
            since, near = self._waiting.popleft()
            if self._seen - since < _WAIT_SECONDS:
                parked.use(near)
                return parked.tunnel
            near.close()
        self._parked.append(parked)
        if len(self._parked) > _MOST_PARKED:
            self._end(self._parked.popleft())
        call_later(IDLE_SECONDS, lambda: self._retire(parked))
        return parked.tunnel

    def _connect(self) -> socket.socket:
        near, own = socket.socketpair()
        own.setblocking(False)
        self._drop_gone()
        if self._parked:
            self._parked.popleft().use(near)
        else:
            self._waiting.append((time.monotonic(), near))
            call_later(_WAIT_SECONDS, self._give_up)
        return own

    def _give_up(self) -> None:
        """Requests that no connection came for fail."""
        due = time.monotonic() - _WAIT_SECONDS
        while self._waiting and self._waiting[0][0] <= due:
            self._waiting.popleft()[1].close()

    def _retire(self, parked: _ParkedConnection) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            self._end(parked)

    def _end(self, parked: _ParkedConnection) -> None:
        if parked.tunnel is not None:
            parked.tunnel.end()

    def _drop_gone(self) -> None:
        if any(one.is_gone for one in self._parked):
            self._parked = deque(one for one in self._parked if not one.is_gone)


class SyncerTunnels:
    """The tunnels of all syncers that are connected with this process, by UIDs of Clusters."""

    def __init__(self, servers: Callable[[], int] = lambda: 1) -> None:
        """`servers`: how many servers there are, this one included."""
        self._own, self._servers = token_hex(8), servers
        self._tunnels: BoundedCache[str, SyncerTunnel] = BoundedCache(
            "syncer_tunnels", _MOST_TUNNELS
        )

    def park(self, uid: str, tenant: str, exchange: Exchange) -> Tunnel:
        """`tenant`: the logical cluster of the Cluster with this UID."""
        found = self._tunnels.get(uid)
        if found is None:
            found = self._tunnels.put(uid, SyncerTunnel(tenant))
        own = ((SERVER_HEADER, self._own), (SERVERS_HEADER, str(self._servers())))
        return found.park(exchange, own)

    def http(self, uid: str) -> HttpClient | None:
        """Connections to the cluster behind a syncer; None if that is not connected."""
        found = self._tunnels.get(uid)
        return found.http if found is not None and found.is_open else None
