"""The workspaces that a Cluster serves, each with a client: objects in them may be assigned to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykcp.clients.interface import Client
from pykcp.multicluster.elsewhere import ClustersElsewhere, NoOtherShards
from pykcp.multicluster.names import shared_name, syncer_finalizer


class ServedWorkspace:
    """One of them, and by what it knows the Cluster."""

    def __init__(self, home: str, cluster: str, workspace: str, client: Client) -> None:
        """`home`: the workspace of the registration."""
        self.name, self.client = workspace, client
        self.label = cluster if workspace == home else shared_name(home, cluster)
        self.finalizer = syncer_finalizer(self.label)


class ServedWorkspaces:
    def __init__(
        self,
        client: Client,
        consumers: Callable[[str], Iterable[str]] = lambda _: (),
        elsewhere: ClustersElsewhere | None = None,
    ) -> None:
        """`consumers`: workspaces of the same server that bind an API of a workspace."""
        self._client, self._consumers = client, consumers
        self._elsewhere = elsewhere or NoOtherShards()

    async def of(self, home: str, cluster: str) -> list[ServedWorkspace]:
        """All of them, on every shard. Raises StatusError if a shard does not answer."""
        near = [(one, self._client) for one in (home, *sorted(set(self._consumers(home)) - {home}))]
        far = await self._elsewhere.consumers(home)
        return [ServedWorkspace(home, cluster, name, client) for name, client in (*near, *far)]
