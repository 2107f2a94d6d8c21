"""What the parts of one syncer share: its two servers, its types, its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.syncer.metrics import SyncMetrics
from pykcp.multicluster.syncer.namespaces import DownstreamNamespaces
from pykcp.multicluster.syncer.projections import CopyStore, LeafStore
from pykcp.multicluster.syncer.render import TypeName
from pykcp.multicluster.syncer.servers import DownstreamClient
from pykcp.multicluster.syncer.settings import Registration, SyncSettings
from pykcp.multicluster.syncer.types import ServedType


class SyncKey(NamedTuple):
    """An object of a workspace: what the work queues of a syncer hold."""

    kind: TypeName
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.cluster, self.namespace, self.name)


@dataclass(slots=True)
class TypeSync:
    """One synced type."""

    served: ServedType
    leaves: LeafStore
    copies: CopyStore
    is_ready: bool = False
    """The copies in the cluster are known."""
    is_retired: bool = False
    """The cluster accepts it no longer: what was synchronized is followed until it goes, and nothing
    is applied.
    """
    problem: str = ""
    """Why the copies cannot be read."""
    note_delay: float = 0.0
    """Seconds for which a status is waited for, before it is noted that an object was applied."""
    has_upstream_status: bool = True
    """The workspace has a status subresource for it."""

    @property
    def kind(self) -> GroupVersionResource:
        return self.served.kind


@dataclass(slots=True)
class SyncContext:
    registration: Registration
    settings: SyncSettings
    upstream: Client
    downstream: DownstreamClient
    namespaces: DownstreamNamespaces
    metrics: SyncMetrics
    hosts: Callable[[str], bool]
    """See `Upstream`."""
    types: dict[TypeName, TypeSync] = field(default_factory=dict)
