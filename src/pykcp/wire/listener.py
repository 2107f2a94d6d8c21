"""A listening socket with its certificate, its connections and their end."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from pykcp.aio.owner import spawn
from pykcp.wire.connection import Connection
from pykcp.wire.exchange import Application
from pykcp.wire.serving import ConnectionHub, Meter
from pykcp.wire.settings import TLSSettings, WireSettings
from pykcp.wire.tls import ServingCertificate

_log = logging.getLogger(__name__)


class ListenError(OSError):
    """The address cannot be listened on; the message is for people."""


class Listener:
    """Serves an application on one address."""

    def __init__(
        self,
        application: Application,
        settings: WireSettings | None = None,
        tls: TLSSettings | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._application = application
        self._settings = settings or WireSettings()
        self._tls = tls
        self._meter = meter
        self._certificate: ServingCertificate | None = None
        self._hub: ConnectionHub | None = None
        self._server: asyncio.Server | None = None
        self._private: asyncio.Server | None = None
        self._adopting = 0
        """Connections that were handed over a moment ago."""
        self._counted: Callable[[int], None] | None = None
        self.port = 0
        """The port listened on, once started."""

    async def start(
        self, host: str, port: int, backlog: int = 1024, *, shares_port: bool = False
    ) -> Listener:
        """Listen; port 0 takes a free one.  Raises `ListenError`, or OSError for bad TLS files.

        `shares_port`: other processes that share it, too, may listen on the same port.
        """
        loop = self.open().loop
        self._server = await self._serve(loop, host, port, backlog, shares_port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def start_private(self, port: int) -> None:
        """Also listen on a port of this machine that no other process shares."""
        assert self._hub is not None
        self._private = await self._serve(self._hub.loop, "127.0.0.1", port, 16, False)

    async def _serve(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int, backlog: int, shared: bool
    ) -> asyncio.Server:
        try:
            return await loop.create_server(
                self._connection, host or None, port, backlog=backlog, reuse_port=shared or None
            )
        except OSError as error:
            raise ListenError(error.errno, explain(error, host, port)) from error

    def open(self, counted: Callable[[int], None] | None = None) -> ConnectionHub:
        """Be ready for connections without an address of one's own: see `adopt`.

        `counted`: called with the number of connections whenever it changes, including those that
        were handed over and are about to be open.
        """
        if problems := [*self._settings.problems()]:
            raise ValueError("; ".join(problems))
        if self._tls is not None:
            self._certificate = ServingCertificate(self._tls)
        loop = asyncio.get_running_loop()
        self._counted = counted
        self._hub = ConnectionHub(
            self._application, self._settings, loop, self._meter, lambda _: self._count()
        )
        return self._hub

    def _count(self) -> None:
        if self._counted is not None:
            self._counted(self.connection_count)

    def adopt(self, accepted: socket.socket) -> None:
        """Serve a connection that was accepted by other means."""
        hub = self._hub
        assert hub is not None
        accepted.setblocking(False)
        if hub.is_draining:
            accepted.close()
            return
        self._adopting += 1
        self._count()
        task = spawn(self._adopt(hub, accepted), "adopt-connection")
        hub.tasks.add(task)
        task.add_done_callback(hub.tasks.discard)

    async def _adopt(self, hub: ConnectionHub, accepted: socket.socket) -> None:
        try:
            await hub.loop.connect_accepted_socket(self._connection, accepted)
        except OSError:  # the client has gone already
            accepted.close()
        finally:
            self._adopting -= 1
            self._count()

    def _connection(self) -> Connection:
        assert self._hub is not None
        if self._certificate is not None:
            self._certificate.refresh(self._hub.loop.time())
            return Connection(self._hub, self._certificate.context)
        return Connection(self._hub, None)

    def reload_certificate(self) -> None:
        """Read the certificate files again; new connections get the new one.

        This happens by itself when the files have changed.  If they cannot be read, the old
        certificate stays and the error is raised.
        """
        if self._certificate is not None:
            self._certificate.reload()

    @property
    def connection_count(self) -> int:
        """With those that were handed over and are about to be open."""
        return len(self._hub.connections) + self._adopting if self._hub is not None else 0

    @property
    def refused(self) -> int:
        """Connections that were closed at once, because there were too many."""
        return self._hub.refused if self._hub is not None else 0

    @property
    def unsent(self) -> int:
        """Octets of answers that wait for all clients."""
        return self._hub.unsent.total if self._hub is not None else 0

    @property
    def shed_count(self) -> int:
        """How many clients lost answers because too much waited."""
        return self._hub.unsent.shed_count if self._hub is not None else 0

    @property
    def buffered(self) -> int:
        """Octets of unfinished request bodies."""
        return self._hub.buffered if self._hub is not None else 0

    async def drain(self, seconds: float) -> None:
        """Accept nothing new, let what is in progress end, then close what is left."""
        if self._hub is None:
            return
        self._stop_listening()
        self._hub.drain()
        try:
            async with asyncio.timeout(seconds):
                await self._hub.wait_until_empty()
        except TimeoutError:
            _log.info("drain timed out with %d open connections", len(self._hub.connections))
        await self.close()

    async def close(self) -> None:
        """Close everything at once and wait until the handlers' tasks have ended."""
        self._stop_listening()
        if self._hub is not None:
            await self._hub.close()

    def _stop_listening(self) -> None:
        for server in (self._server, self._private):
            if server is not None:
                server.close()
        self._server = self._private = None


def explain(error: OSError, host: str, port: int) -> str:
    where = f"{host or '*'}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program"
    if error.errno == errno.EACCES:
        return f"{where} may not be listened on: permission denied"
    return f"cannot listen on {where}: {error.strerror or error}"
