"""kcp's controllers, made: the only thing a process needs. One line each."""

from __future__ import annotations

from pykcp.controllers.runtime.manager import Follower
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.registry.bound import BoundResources
from pykcp.registry.directory import Directory
from pykcp.registry.hub import Hub
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
) -> list[Follower]:
    """All of them, on a started store."""
    made: list[Follower] = []
    return made
