"""Credentials of a kubeconfig that is replaced while the program runs: no restart is needed."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import HTTP2, Protocols, Trust
from pykcp.clients.kubeconfig import load_endpoint, make_context
from pykcp.clients.remote.connect import http_of, token_of
from pykcp.clients.remote.paths import path_before_clusters
from pykcp.wire.settings import ClientSettings

_log = logging.getLogger(__name__)

PING_AFTER, PING_SECONDS = 10.0, 5.0
"""A connection on which nothing came for so long is checked, and given up if it stays silent."""


class FreshKubeconfig:
    """The credentials that the file has now; its address is read once."""

    def __init__(self, path: str, context: str = "") -> None:
        self._path, self._context = path, context
        self._read_at = (0, 0)
        self._read_at = self._stamp()
        self._endpoint = load_endpoint(path, context)
        self._token = token_of(self._endpoint)

    def http(self) -> HttpClient:
        """Connections with the certificate of the file at the time when each is opened."""
        settings = ClientSettings(ping_after=PING_AFTER, ping_timeout=PING_SECONDS)
        parts = urlsplit(self._endpoint.url)
        server = http_of(self._endpoint, f"{parts.scheme}://{parts.netloc}").server
        if urlsplit(self._endpoint.url).scheme == "https":
            server = Server(
                server.scheme, server.host, server.port, _FreshTrust(self), server.server_name
            )
        return HttpClient(server, settings)

    @property
    def root(self) -> str:
        """The path of the virtual workspace that the address leads to, if any."""
        return path_before_clusters(self._endpoint.url)

    def token(self) -> str:
        self.reload()
        return self._token()

    def tls(self) -> ssl.SSLContext:
        """The authority and the certificate that were read last."""
        return make_context(self._endpoint)

    def reload(self) -> bool:
        """Read the file again if it was replaced; whether it was."""
        stamp = self._stamp()
        if stamp == self._read_at:
            return False
        self._read_at = stamp
        try:
            endpoint = load_endpoint(self._path, self._context)
        except CredentialError as error:
            _log.warning("the kubeconfig is not reloaded: %s", error)
            return False
        _log.info("%s was reloaded", self._path)
        self._endpoint, self._token = endpoint, token_of(endpoint)
        return True

    def _stamp(self) -> tuple[int, int]:
        """The file may be missing for a moment while it is replaced."""
        try:
            found = Path(self._path).stat()
        except OSError:
            return self._read_at
        return (found.st_mtime_ns, found.st_ino)


class _FreshTrust(Trust):
    """New connections use the certificate that the file has now."""

    def __init__(self, fresh: FreshKubeconfig) -> None:
        super().__init__(fresh.tls)
        self._fresh = fresh

    def context(self, protocols: Protocols = HTTP2) -> ssl.SSLContext:
        if self._fresh.reload():
            self._contexts.clear()
        return super().context(protocols)
