"""What the controllers of the splitter share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pykcp.clients.interface import Client, Lister
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.multicluster.elsewhere import ClustersElsewhere, NoOtherShards
from pykcp.multicluster.interpreter.kinds import TABLE, KindTraits, rules_of
from pykcp.multicluster.names import (
    NEGOTIATED,
    WORKLOAD_BINDINGS,
    negotiated_name,
)
from pykcp.multicluster.scheduling import eviction, rebalancing, stuck
from pykcp.multicluster.scheduling.policy import matching
from pykcp.multicluster.splitting.inventory import Inventory
from pykcp.multicluster.splitting.keys import RootKey, binding_name, is_root
from pykcp.multicluster.splitting.territory import Territory
from pykcp.types import Object

LARGEST = 3 << 19
"""Octets of an object that is placed: etcd, which most clusters store it in, takes no more in a
request. To decode a larger one, several times for each change, would hold up the whole server."""


@dataclass(frozen=True, slots=True)
class SplitterSettings:
    """Times in seconds. Tests make them shorter."""

    toleration: float = eviction.TOLERATION
    cooldown: float = rebalancing.COOLDOWN
    evictions_per_second: float = 5.0
    evictions_per_cluster: float = 1.0
    stuck_toleration: float = stuck.TOLERATION
    """How long replicas may find no node in their cluster; 0: for ever."""
    status_delay: float = 0.2
    """Reports that arrive within this time become one status."""
    follower_wait: float = 10.0
    """How long a workload waits for the objects that it needs."""


@dataclass(frozen=True, slots=True)
class SplitterParts:
    lister: Lister
    client: Client
    territory: Territory
    inventory: Inventory
    settings: SplitterSettings = field(default_factory=SplitterSettings)
    metrics: ControllerMetrics | None = None
    clock: Callable[[], float] = time.time
    elsewhere: ClustersElsewhere = field(default_factory=NoOtherShards)

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str
    ) -> Object | None:
        """The object; None also if the workspace does not have the kind, or is gone."""
        try:
            return self.lister.get(cluster, kind, name, namespace)
        except (NotFound, LookupError):
            return None

    def stored(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str
    ) -> bytes | None:
        """The same, not decoded."""
        try:
            return self.lister.stored(cluster, kind, name, namespace)
        except (NotFound, LookupError):
            return None

    def root(self, key: RootKey) -> Object | None:
        """The object, if it is to be placed."""
        kind = self.territory.listed_kind(key.cluster, key.type)
        found = None if kind is None else self.get(key.cluster, kind, key.name, key.namespace)
        return found if found is not None and is_root(key.type, found) else None

    def is_too_large(self, key: RootKey) -> bool:
        """Whether an object is larger than a cluster takes: it is not decoded, and copies of what
        it was before stay as they are. One that is deleted is not too large.
        """
        kind = self.territory.listed_kind(key.cluster, key.type)
        if kind is None:
            return False
        value = self.stored(key.cluster, kind, key.name, key.namespace)
        return value is not None and len(value) > LARGEST and not metadata_of(value).is_deleting

    def binding(self, key: RootKey) -> Object | None:
        return self.get(key.cluster, WORKLOAD_BINDINGS, binding_name(key), key.namespace)

    def placement(self, key: RootKey, root: Object) -> Object | None:
        """The Placement that applies to an object."""
        found = self.inventory.placements(key.cluster, key.namespace)
        if not found:
            return None
        return matching([one for one in found if not meta.is_deleting(one)], root)

    def rules(self, key: RootKey, root: Object) -> KindTraits:
        has_scale = key.type not in TABLE and self._has_scale(key)
        return rules_of(key.type, root, has_scale=has_scale)

    def _has_scale(self, key: RootKey) -> bool:
        kind = self.territory.listed_kind(key.cluster, key.type)
        if kind is None:
            return False
        name = negotiated_name(kind.resource, kind.version, kind.group)
        found = self.get(key.cluster, NEGOTIATED, name, "") or {}
        parts = (found.get("spec") or {}).get("subResources") or ()
        return any(part.get("name") == "scale" for part in parts)
