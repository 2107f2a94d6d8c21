"""The way in: a server and the credentials for it, from a kubeconfig."""

from __future__ import annotations

import os
import pathlib
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from pykcp.client.credentials import usable
from pykcp.client.transport import Transport
from pykcp.client.workspaces import Workspace
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint

_CLUSTERS = "/clusters/"


class Kcp:
    """A server; `workspace` gives any of its workspaces. Close it at the end, or use `async with`."""

    def __init__(self, endpoint: KubeconfigServer, manager: str = "pykcp-client") -> None:
        """`manager`: the name under which the server records which fields this client wrote."""
        self.endpoint, self._manager = endpoint, manager
        self._transports: dict[str, Transport] = {}
        self._prefix, _, rest = urlsplit(endpoint.url).path.rstrip("/").partition(_CLUSTERS)
        self._path = rest.partition("/")[0]

    @property
    def current(self) -> Workspace:
        """The workspace that the kubeconfig's server names."""
        return self.workspace(self._path)

    def workspace(self, path: str) -> Workspace:
        """A workspace by its path (`root:team`) or by the name of its logical cluster."""
        transport = self._reach(self.endpoint.url)
        return Workspace(transport, path, prefix=self._prefix, reach=self._reach)

    def _reach(self, url: str) -> Transport:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        found = self._transports.get(origin)
        if found is None:
            found = self._transports[origin] = Transport(self.endpoint, self._manager, origin)
        return found

    async def close(self) -> None:
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    *,
    context: str = "",
    manager: str = "pykcp-client",
) -> Kcp:
    """The server of a kubeconfig's context; no request is sent yet. Raises CredentialError.

    Without `kubeconfig`: the first file that exists of `$KUBECONFIG`, `.kcp/admin.kubeconfig` and
    `~/.kube/config`.
    """
    path = os.fspath(kubeconfig) if kubeconfig is not None else _default_kubeconfig()
    return Kcp(usable(load_endpoint(path, context, runs_plugins=True), path), manager)


def _default_kubeconfig() -> str:
    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    tried = named or [".kcp/admin.kubeconfig", str(pathlib.Path("~/.kube/config").expanduser())]
    for name in tried:
        if pathlib.Path(name).exists():
            return name
    raise CredentialError(
        f"no kubeconfig found ({', '.join(tried)}): set KUBECONFIG or name a file"
    )
