"""The credentials of a kubeconfig, those of credential plugins among them."""

from __future__ import annotations

import asyncio
import base64
import os
import pathlib
import time
from dataclasses import replace
from datetime import datetime

from pykcp.clients.credential_files import CredentialError, read
from pykcp.clients.exec_credential import credentials
from pykcp.clients.kubeconfig import KubeconfigServer

_EARLY = 10.0
"""Seconds before they expire at which a plugin is asked for new credentials."""


class ClientCredentials:
    """What a client shows to a server; a credential plugin is run before the first request."""

    def __init__(self, given: KubeconfigServer) -> None:
        self.given = given
        """As the kubeconfig has it."""
        self.endpoint = given
        """With what the plugin has given since."""
        self._renewed_until = 0.0
        self._lock = asyncio.Lock()

    async def authorization(self) -> str:
        """The header of the next request, "" for none. Raises CredentialError."""
        if self.given.plugin is not None and time.time() >= self._renewed_until:
            await self._renew()
        token = token_of(self.endpoint)
        if token:
            return f"Bearer {token}"
        if self.endpoint.username:
            pair = f"{self.endpoint.username}:{self.endpoint.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return ""

    async def _renew(self) -> None:
        async with self._lock:  # many requests do not run it many times
            if time.time() < self._renewed_until:
                return
            # It may ask a person to sign in: the event loop does not wait for that.
            self.endpoint, expires = await asyncio.to_thread(run_plugin, self.given)
            self._renewed_until = expires.timestamp() - _EARLY if expires else float("inf")


def run_plugin(given: KubeconfigServer) -> tuple[KubeconfigServer, datetime | None]:
    """The server with the credentials of the kubeconfig's plugin, and when they expire, if ever.

    Without a plugin: the server as it is. Raises CredentialError.
    """
    if given.plugin is None:
        return given, None
    fields = credentials(given.plugin, given.url, given.cluster)
    endpoint = replace(given, token=fields.get("token") or given.token)
    if fields.get("certificate"):
        certificate, key = fields["certificate"].encode(), fields["key"].encode()
        endpoint = replace(endpoint, certificate=certificate, key=key)
    expiration = fields.get("expiration")
    return endpoint, datetime.fromisoformat(expiration) if expiration else None


def token_of(endpoint: KubeconfigServer) -> str:
    """The bearer token to show now. Raises CredentialError."""
    if endpoint.token_file:  # tokens in files are replaced there while they are in use
        return read(pathlib.Path(endpoint.token_file)).decode().strip()
    return endpoint.token


def usable(endpoint: KubeconfigServer, kubeconfig: str) -> KubeconfigServer:
    """The server of a kubeconfig, for this client. Raises CredentialError for what it cannot do.

    A plugin's command with a folder in it is relative to the kubeconfig, as in kubectl.
    """
    if endpoint.proxy:
        raise CredentialError(
            f"{kubeconfig}: proxy-url is not supported by this client: it connects to the server "
            "directly"
        )
    if (endpoint.username or endpoint.password) and (endpoint.token or endpoint.token_file):
        raise CredentialError(
            f"{kubeconfig}: more than one authentication method found; "
            "found [token basicAuth], only one is allowed"
        )
    command = str((endpoint.plugin or {}).get("command") or "")
    if endpoint.plugin is None or os.sep not in command:
        return endpoint
    found = str(pathlib.Path(kubeconfig).absolute().parent / command)
    return replace(endpoint, plugin={**endpoint.plugin, "command": found})
