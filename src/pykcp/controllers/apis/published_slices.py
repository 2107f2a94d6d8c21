"""Endpoint slices of other shards: found in the replica of the cache, changed at their shard.

Every shard adds its own URL to a slice, wherever the slice is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykcp.controllers.runtime.controller import Requeue
from pykcp.controllers.runtime.shard_changes import follow_published_shards
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.registry.lookup import Replica
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

SHARD_ANNOTATION = "kcp.io/shard"


class PublishedSlices:
    def __init__(
        self, kind: GroupVersionResource, replica: Replica | None, peers: Peers | None
    ) -> None:
        """Empty without other shards."""
        self._kind, self._peers = kind, peers
        self._replica = replica if peers is not None else None

    def follow(self, on_slice: Callable[[ObjectKey], None], on_shards: Callable[[], None]) -> None:
        """Call back for changed slices, and for changes of Shards, on other shards."""
        if self._replica is None:
            return
        replica = self._replica

        def changed(kind: tuple[str, str], cluster: str) -> None:
            if kind == (self._kind.group, self._kind.resource):
                for found in replica.all(self._kind, cluster):
                    on_slice(_key(found))

        replica.listen(changed)
        follow_published_shards(replica, on_shards)

    def all(self) -> Iterator[ObjectKey]:
        for found in self._replica.all(self._kind) if self._replica is not None else ():
            yield _key(found)

    def find(self, index: str) -> Iterator[ObjectKey]:
        """Those with an index entry."""
        for found in self._replica.find(self._kind, index) if self._replica is not None else ():
            yield _key(found)

    def get(self, key: ObjectKey) -> Object | None:
        if self._replica is None:
            return None
        return self._replica.get(self._kind, key.cluster, key.name)

    async def change_status(self, found: Object, make: Callable[[Object], None]) -> None:
        """Change the status of a slice at its shard; nothing happens if it is gone."""
        assert self._peers is not None
        shard = meta.annotation(found, SHARD_ANNOTATION)
        try:
            await self._peers.client(shard).change(
                meta.cluster(found), self._kind, meta.name(found), make, subresource="status"
            )
        except NotFound:
            return
        except ServiceUnavailable as error:
            raise Requeue(f"shard {shard}: {error}") from error


def _key(found: Object) -> ObjectKey:
    return ObjectKey(meta.cluster(found), "", meta.name(found))
