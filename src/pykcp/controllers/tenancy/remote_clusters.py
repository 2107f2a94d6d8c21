"""Logical clusters of workspaces of this shard that are on other shards.

The other shard provisions a logical cluster in one transaction, keyed by the uid of its
workspace, so a request can be repeated after a crash. Later it reports changes of the logical
cluster by itself (`workspace_reports`): nothing is polled here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

PROVISION_PATH = "/services/provisioning/clusters"
REPORT_PATH = "/services/provisioning/reports"


class ShardUnreachable(Requeue):
    """A shard does not answer; it is asked again later."""

    def __init__(self, shard: str, error: Exception) -> None:
        super().__init__(f"shard {shard}: {error}")
        self.shard = shard


class RemoteClusters:
    def __init__(self, peers: Peers | None, own_shard: str) -> None:
        self._peers, self._own = peers, own_shard

    def shard_of(self, workspace: Object) -> str:
        """The other shard that a workspace was placed on; "" if it is this one or none."""
        name = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION)
        return "" if self._peers is None or name == self._own else name

    def can_ask(self, shard: str) -> bool:
        """Whether it is worth asking a shard now: not just after it did not answer."""
        if shard == self._own:
            return True
        if self._peers is None:
            return False
        try:
            self._peers.client(shard)
        except ServiceUnavailable:
            return False
        return True

    async def provision(self, shard: str, workspace: Object, cluster: str, path: str) -> Object:
        """Have another shard provision the logical cluster of a workspace; returns it.

        Returns the existing one if it was provisioned before. Raises AlreadyExists if the name is
        taken, TooManyRequests if the shard has no room, ShardUnreachable if it does not answer.
        """
        wanted = {"workspace": workspace, "cluster": cluster, "path": path, "shard": self._own}
        with _answering(shard):
            return await self._others.client(shard).send("POST", PROVISION_PATH, wanted)

    async def get(self, shard: str, cluster: str) -> Object | None:
        with _answering(shard):
            return await self._others.client(shard).get(cluster, LOGICAL_CLUSTERS, "cluster")

    async def delete(self, shard: str, cluster: Object) -> None:
        with _answering(shard):
            await self._others.client(shard).delete(
                meta.cluster(cluster), LOGICAL_CLUSTERS, "cluster", uid=meta.uid(cluster)
            )

    async def find_anywhere(self, workspace: Object, cluster: str) -> tuple[str, Object] | None:
        """The logical cluster of a workspace on any other shard, and that shard's name.

        Used before the record of a logical cluster is given up: it may have been moved.
        """
        for shard in self._peers.names() if self._peers is not None else ():
            found = await self.get(shard, cluster)
            if found is not None and is_owned(found, workspace):
                return shard, found
        return None

    @property
    def _others(self) -> Peers:
        if self._peers is None:
            raise Requeue("this shard is not configured to reach other shards")
        return self._peers


@contextmanager
def _answering(shard: str) -> Iterator[None]:
    """A shard that does not answer is asked again later."""
    try:
        yield
    except ServiceUnavailable as error:
        raise ShardUnreachable(shard, error) from error


def is_owned(cluster: Object, workspace: Object) -> bool:
    """Whether a LogicalCluster was made for this very Workspace."""
    owner = (cluster.get("spec") or {}).get("owner") or {}
    return bool(owner.get("uid") == meta.uid(workspace))
