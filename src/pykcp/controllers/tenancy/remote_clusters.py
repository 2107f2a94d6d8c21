"""Logical clusters of workspaces of this shard that are on other shards.

The other shard provisions a logical cluster in one transaction, keyed by the uid of its
workspace, so a request can be repeated after a crash. Later it reports changes of the logical
cluster by itself (`workspace_reports`): nothing is polled here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
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

_AT_ONCE = 16
_SILENT_SECONDS = 1.0
"""A shard that has not answered any of so many requests for so long gets no more."""
PROVISION_PATH = "/services/provisioning/clusters"
REPORT_PATH = "/services/provisioning/reports"


class ShardUnreachable(Requeue):
    """A shard does not answer; it is asked again later."""

    def __init__(self, shard: str, why: Exception | str) -> None:
        super().__init__(f"shard {shard}: {why}")
        self.shard = shard


class RemoteClusters:
    def __init__(self, peers: Peers | None, own_shard: str) -> None:
        self._peers, self._own = peers, own_shard
        self._under_way: Counter[str] = Counter()
        """Requests to each shard."""
        self._ended: dict[str, float] = {}
        """When one of them ended last."""
        self.on_return: Callable[[str], None] = lambda _: None
        """Called with the name of a shard that has answered after it did not."""

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
        with self._asking(shard) as peers:
            return await peers.client(shard).send("POST", PROVISION_PATH, wanted)

    async def get(self, shard: str, cluster: str) -> Object | None:
        with self._asking(shard) as peers:
            return await peers.client(shard).get(cluster, LOGICAL_CLUSTERS, "cluster")

    async def delete(self, shard: str, cluster: Object) -> None:
        with self._asking(shard) as peers:
            await peers.client(shard).delete(
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

    @contextmanager
    def _asking(self, shard: str) -> Iterator[Peers]:
        """A shard that does not answer is asked again later, and by few requests at a time: each
        of them may take seconds to fail.
        """
        if self._peers is None:
            raise Requeue("this shard is not configured to reach other shards")
        has_answered = self._peers.has_answered(shard)
        if self._is_silent(shard, has_answered):
            raise ShardUnreachable(shard, "it does not answer")
        self._under_way[shard] += 1
        try:
            yield self._peers
        except ServiceUnavailable as error:
            raise ShardUnreachable(shard, error) from error
        else:
            if not has_answered:
                self.on_return(shard)
        finally:
            self._under_way[shard] -= 1
            self._ended[shard] = time.monotonic()

    def _is_silent(self, shard: str, has_answered: bool) -> bool:
        """Whether requests that are under way have to end before there are more."""
        if not has_answered:
            return self._under_way[shard] > 0
        if self._under_way[shard] < _AT_ONCE:
            return False
        return time.monotonic() > self._ended.get(shard, 0.0) + _SILENT_SECONDS


def is_owned(cluster: Object, workspace: Object) -> bool:
    """Whether a LogicalCluster was made for this very Workspace."""
    owner = (cluster.get("spec") or {}).get("owner") or {}
    return bool(owner.get("uid") == meta.uid(workspace))
