"""Changes of objects that other shards have published, for controllers.

It reads the log of the cache's store, so changes that arrived shortly before a restart are
delivered again.
"""

from __future__ import annotations

from pykcp.cache.scopes import split
from pykcp.clients.interface import Change, Handler
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.log_feed import LogFeed
from pykcp.storage.interface import Store


class ReplicaFeed:
    def __init__(self, store: Store, own_shard: str) -> None:
        """Objects of `own_shard` are left out: its own feed delivers them."""
        self._log, self._own = LogFeed(store), own_shard

    def on(self, kind: GroupVersionResource, handler: Handler) -> None:
        own = self._own

        def changed(change: Change) -> None:
            shard, cluster = split(change.cluster)
            if shard != own:
                handler(_of_cluster(change, cluster))

        self._log.on_resource(resource_id(kind.group, kind.resource), changed)

    def start(self) -> None:
        self._log.start()

    def stop(self) -> None:
        self._log.stop()

    async def run(self) -> None:
        await self._log.run()


def _of_cluster(change: Change, cluster: str) -> Change:
    """A change in the cache as one in a logical cluster."""
    return Change(
        (change.resource, cluster, change.namespace, change.name),
        change.revision,
        change.value,
        change.terms,
        change.created,
        change.deleted,
        lambda _ref, _revision: change.previous(),
    )
