"""Clients of many servers, each made with the first request to it and closed when it is idle."""

from __future__ import annotations

from collections import OrderedDict

from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.wire.settings import ClientSettings

_MOST = 256
"""Servers with which connections are kept; tenants could choose any number of them."""


class ClientPool:
    def __init__(self, settings: ClientSettings | None = None, most: int = _MOST) -> None:
        self._settings, self._most = settings, most
        self._clients: OrderedDict[tuple[object, ...], HttpClient] = OrderedDict()
        self._latest: HttpClient | None = None

    def client(self, server: Server) -> HttpClient:
        """The client of a server; new connections go to the addresses that are given now."""
        latest = self._latest
        if latest is not None and latest.server is server:
            return latest
        # Servers that are trusted otherwise share no connections: one was verified, one was not.
        key = (server.scheme, server.host, server.port, server.server_name, id(server.trust))
        found = self._clients.get(key)
        if found is None:
            found = self._clients[key] = HttpClient(server, self._settings)
            self._make_room()
        else:
            found.server = server
            self._clients.move_to_end(key)
        self._latest = found
        return found

    def _make_room(self) -> None:
        excess = len(self._clients) - self._most
        if excess > 0:
            idle = [k for k, client in [*self._clients.items()][:-1] if client.is_idle]
            for key in idle[:excess]:
                self._clients.pop(key).close()

    def close(self) -> None:
        """Break off what is under way."""
        self._latest = None
        while self._clients:
            self._clients.popitem()[1].close()
