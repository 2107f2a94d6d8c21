"""The way in, without `await`."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from pykcp.client import session
from pykcp.client.portal import Portal
from pykcp.client.sync.workspaces import SyncWorkspace
from pykcp.clients.kubeconfig import KubeconfigServer


class SyncKcp:
    """A server; see `pykcp.client.Kcp`."""

    def __init__(self, kcp: session.Kcp) -> None:
        self._kcp, self._portal = kcp, Portal()

    @property
    def endpoint(self) -> KubeconfigServer:
        return self._kcp.endpoint

    @property
    def current(self) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self._kcp.current)

    def workspace(self, path: str) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self._kcp.workspace(path))

    def close(self) -> None:
        self._portal.run(self._kcp.close())
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    *,
    context: str = "",
    manager: str = "pykcp-client",
) -> SyncKcp:
    """The server of a kubeconfig's context; see `pykcp.client.connect`. Raises CredentialError."""
    return SyncKcp(session.connect(kubeconfig, context=context, manager=manager))
