"""The life of `deployment-splitter`: places workloads on the clusters that serve their workspaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykcp.aio.owner import TaskOwner
from pykcp.clients.kubeconfig import load_endpoint
from pykcp.clients.remote.client import identities_of_root
from pykcp.clients.remote.connect import client_of
from pykcp.clients.remote.paths import cluster_of
from pykcp.multicluster.splitting.engine import Splitting
from pykcp.programs.deployment_splitter.feeds import ALL, WorkloadFeed
from pykcp.programs.deployment_splitter.settings import SplitterProgramSettings
from pykcp.programs.kit.run import run_program

MANAGER = "deployment-splitter"
_REQUEST_SECONDS = 30.0


def run(settings: SplitterProgramSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_splitter(settings), settings.logging, warnings)


class running_splitter:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = "deployment-splitter"

    def __init__(self, settings: SplitterProgramSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("splitter-program")

    async def __aenter__(self) -> None:
        options = self._settings.workspace
        endpoint = load_endpoint(options.kubeconfig, options.context)
        self._workspace = options.workspace or cluster_of(endpoint.url) or ALL
        self._client = client_of(endpoint, MANAGER, timeout=_REQUEST_SECONDS)
        if self._workspace == ALL:  # kinds of exports are named with their identities there
            identities = await identities_of_root(self._client)
            self._client.http.close()
            self._client = client_of(
                endpoint, MANAGER, identities=identities, timeout=_REQUEST_SECONDS
            )
        feed = WorkloadFeed(self._client, self._workspace)
        splitting = Splitting(
            feed.lister, self._client, self._settings.splitting.splitter_settings()
        )
        splitting.follow(feed)
        await self._owner.__aenter__()
        self._owner.start_restartable("feed", feed.run)
        for controller in splitting.controllers:
            self._owner.start_restartable(controller.name, controller.run)

    async def __aexit__(self, *exc: object) -> None:
        await self._owner.stop()
        self._client.http.close()

    def announcement(self) -> Iterator[str]:
        where = "all workspaces" if self._workspace == ALL else self._workspace
        yield f"placing the workloads of {where}"
