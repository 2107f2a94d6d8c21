"""The parts of a shard that its controllers are made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykcp.clients.interface import Lister
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.observe.metrics import Registry
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Timestamps
from pykcp.registry.lookup import ObjectLookup

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers


@dataclass(frozen=True, slots=True)
class ControllerParts:
    lister: Lister
    make_client: Callable[[str], ShardClient]
    """A client that acts as the named user."""
    directory: Directory
    bound: BoundResources
    lookup: ObjectLookup
    metrics: ControllerMetrics
    registry: Registry
    shard_name: str
    gates: frozenset[str]
    clock: Callable[[], float] = time.time
    peers: Peers | None = None
    """The other shards; None if this is the only one."""

    def now(self) -> Timestamps:
        return Timestamps(self.clock)

    def account(self, name: str) -> ShardClient:
        """A client that acts as a service account of kube-system, as in kcp."""
        return self.make_client(f"system:serviceaccount:kube-system:{name}")

    def controller(self, name: str) -> ShardClient:
        """A client that acts as one of kcp's controllers."""
        return self.make_client(f"system:kcp:controller:{name}")
