"""The life of `virtual-workspaces`: read the kubeconfig, listen, drain."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterable

from pykcp.aio.owner import TaskOwner
from pykcp.auth.authn.chain import Authentication
from pykcp.clients.kubeconfig import load_endpoint
from pykcp.programs.kit.run import run_program
from pykcp.programs.virtual.proxy import VirtualWorkspaceProxy
from pykcp.programs.virtual.settings import VirtualWorkspacesSettings
from pykcp.server.health import Health
from pykcp.wire.listener import Listener
from pykcp.wire.settings import WireSettings


def run(settings: VirtualWorkspacesSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_virtual_workspaces(settings), settings.logging, warnings)


class running_virtual_workspaces:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = "virtual-workspaces"

    def __init__(self, settings: VirtualWorkspacesSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("virtual-workspaces")
        self._health = Health()

    async def __aenter__(self) -> int:
        settings, serving = self._settings, self._settings.serving
        endpoint = load_endpoint(settings.shard.kubeconfig, settings.shard.context)
        proxy = VirtualWorkspaceProxy(endpoint, _authentication(settings), self._health)
        tls = serving.tls(serving.files(pathlib.Path()))
        self._listener = Listener(serving.for_browsers(proxy), WireSettings(), tls)
        await serving.listen(self._listener)
        await self._owner.__aenter__()
        self._owner.start_restartable("shard-anonymous", proxy.anonymous.run)
        self._owner.start_restartable("shard-privileged", proxy.privileged.run)
        return self._listener.port

    async def __aexit__(self, *exc: object) -> None:
        self._health.is_draining = True
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._owner.stop()

    def announcement(self) -> Iterable[str]:
        yield f"serving on {self._settings.serving.bind_address}:{self._listener.port}"


def _authentication(settings: VirtualWorkspacesSettings) -> Authentication:
    return Authentication(
        clock=time.time,
        certificates=settings.client_ca.authenticator(),
        proxy=settings.request_header.authenticator(),
    )
