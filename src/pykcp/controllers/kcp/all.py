"""kcp's controllers, made: the only thing a process needs. One line each."""

from __future__ import annotations

from pykcp.controllers.kcp import replicate_marking
from pykcp.controllers.kcp.published import Published
from pykcp.controllers.kcp.replicate_marking import ReplicateMarking
from pykcp.controllers.kcp.replication import Replication
from pykcp.controllers.runtime.manager import Follower
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.registry.bound import BoundResources
from pykcp.registry.directory import Directory
from pykcp.registry.hub import Hub
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import Lookup
from pykcp.storage.interface import Store


def make(
    *,
    store: Store,
    hub: Hub,
    directory: Directory,
    bound: BoundResources,
    lookup: Lookup,
    metrics: ControllerMetrics,
    shard_name: str,
    gates: frozenset[str],
    published: Published,
) -> list[Follower]:
    """All of them, on a started store."""

    def client(name: str) -> LocalClient:
        return LocalClient(directory, f"system:serviceaccount:kcp-system:{name}")

    made: list[Follower] = [
        ReplicateMarking(store, client(replicate_marking.NAME), published, metrics),
        Replication(store, published, shard_name, metrics),
    ]
    return made
