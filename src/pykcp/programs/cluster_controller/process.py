"""The life of `cluster-controller`: the controllers of Clusters on the feed of another server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykcp.aio.owner import TaskOwner
from pykcp.clients.remote.client import RemoteClient, identities_of_root
from pykcp.clients.remote.connect import connect
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.multicluster.all import MulticlusterControllers, MulticlusterParts
from pykcp.multicluster.clusters.pushing import PushSyncers
from pykcp.multicluster.syncer.servers import SyncServer
from pykcp.programs.cluster_controller.settings import ClusterControllerSettings
from pykcp.programs.kit.run import run_program


def run(settings: ClusterControllerSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_controller(settings), settings.logging, warnings)


class running_controller:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = "cluster-controller"

    def __init__(self, settings: ClusterControllerSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("cluster-controller")
        self._clients: list[RemoteClient] = []

    async def __aenter__(self) -> None:
        identities = await identities_of_root(self._client("cluster-controller", {}))
        client = self._client("cluster-controller", identities)
        feed = RemoteFeed(client)
        controllers = MulticlusterControllers(
            MulticlusterParts(
                feed=feed,
                lister=feed.lister,
                client=lambda name: self._client(name, identities),
                settings=self._settings.clusters.cluster_settings(),
                make_syncer=PushSyncers(SyncServer(self._client("kcp-syncer", identities))),
            )
        )
        await self._owner.__aenter__()
        self._owner.start_restartable("feed", feed.run)
        await feed.synced()
        self._owner.start_restartable("controllers", controllers.run)

    def _client(self, manager: str, identities: dict[tuple[str, str], str]) -> RemoteClient:
        server = self._settings.server
        made = connect(server.kubeconfig, manager, server.context, identities)
        self._clients.append(made)
        return made

    async def __aexit__(self, *exc: object) -> None:
        await self._owner.stop()
        for client in self._clients:
            client.http.close()

    def announcement(self) -> Iterator[str]:
        yield f"clusters without a mode have the mode {self._settings.clusters.default_mode()}"
