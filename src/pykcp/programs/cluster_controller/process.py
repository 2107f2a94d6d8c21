"""The life of `cluster-controller`: the controllers of Clusters on the feed of another server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykcp.aio.owner import TaskOwner
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.remote.client import RemoteClient, identities_of_root
from pykcp.clients.remote.connect import connect
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTERS
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
        first = self._client("cluster-controller", {})
        workspace = await self._logical_cluster(first)
        # Kinds of exports are named with their identities in requests about all workspaces.
        identities = {} if workspace else await identities_of_root(first)
        client = self._client("cluster-controller", identities)
        feed = RemoteFeed(client, workspace) if workspace else RemoteFeed(client)
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

    async def _logical_cluster(self, client: RemoteClient) -> str:
        """The name of the workspace that is served; empty: all are."""
        path = self._settings.server.workspace
        if not path:
            return ""
        found = await client.get(path, LOGICAL_CLUSTERS, "cluster") or {}
        name = meta.annotation(found, meta.CLUSTER_ANNOTATION)
        if not name:
            raise CredentialError(f"--workspace: there is no workspace {path}")
        return name

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
