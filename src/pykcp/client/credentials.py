"""The credentials of a kubeconfig, those of credential plugins among them."""

from __future__ import annotations

import asyncio
import pathlib
import time
from dataclasses import replace
from datetime import datetime

from pykcp.clients.credential_files import read
from pykcp.clients.exec_credential import credentials
from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.types import Object

_EARLY = 10.0
"""Seconds before they expire at which a plugin is asked for new credentials."""


class ClientCredentials:
    """What a client shows to a server; a credential plugin is run before the first request."""

    def __init__(self, endpoint: KubeconfigServer) -> None:
        self.endpoint = endpoint
        self._renewed_until = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """The bearer token for the next request, "" for none. Raises CredentialError."""
        plugin = self.endpoint.plugin
        if plugin is not None and time.time() >= self._renewed_until:
            await self._renew(plugin)
        endpoint = self.endpoint
        if endpoint.token_file:  # tokens in files are replaced there while they are in use
            return read(pathlib.Path(endpoint.token_file)).decode().strip()
        return endpoint.token

    async def _renew(self, plugin: Object) -> None:
        async with self._lock:  # many requests do not run it many times
            if time.time() < self._renewed_until:
                return
            url, cluster = self.endpoint.url, self.endpoint.cluster
            # It may ask a person to sign in: the event loop does not wait for that.
            given = await asyncio.to_thread(credentials, plugin, url, cluster)
            self.endpoint = replace(
                self.endpoint,
                token=given.get("token", ""),
                certificate=given.get("certificate", "").encode(),
                key=given.get("key", "").encode(),
            )
            self._renewed_until = _seconds(given.get("expiration")) - _EARLY


def _seconds(time_text: str | None) -> float:
    return datetime.fromisoformat(time_text).timestamp() if time_text else float("inf")
