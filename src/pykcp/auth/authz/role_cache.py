"""The cache of what authorization needs to know about logical clusters.

A cluster's RBAC objects and the facts of its LogicalCluster are loaded on first use, indexed, and
dropped when one of them changes (`invalidate`, called for every event of the five kinds) or when
the cache is full. Decisions are cached under the `serial` of a state: a new serial makes them
unreachable, so that none has to be searched for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.rbac import ClusterPolicy, RbacObjects
from pykcp.caching import BoundedCache
from pykcp.steps import Steps, at_once
from pykcp.types import Object

ADMIN_CLUSTER = "system:admin"
"""Its roles and bindings count everywhere."""

WATCHED = frozenset(
    {"clusterroles", "clusterrolebindings", "roles", "rolebindings", "logicalclusters"}
)
"""The resources whose events must be passed to `RoleCache.invalidate`."""

_REQUIRED_GROUPS = "authorization.kcp.io/required-groups"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a LogicalCluster object says that matters to access."""

    phase: str = ""
    required_groups: str | None = None
    """The annotation: clauses separated by `;`, groups within one by `,`."""

    @classmethod
    def of(cls, logical_cluster: Object) -> ClusterFacts:
        annotations = (logical_cluster.get("metadata") or {}).get("annotations") or {}
        phase = (logical_cluster.get("status") or {}).get("phase") or ""
        return cls(phase, annotations.get(_REQUIRED_GROUPS))


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """What a loader brings."""

    objects: RbacObjects = field(default_factory=RbacObjects)
    replicated: RbacObjects | None = None
    """The same from the cache server, for a cluster that lives on another shard."""
    logical_cluster: Object | None = None
    """The object named `cluster`; None: there is no such logical cluster."""


Loader = Callable[[str], Awaitable[ClusterRules]]
"""Reads one logical cluster's RBAC objects and its LogicalCluster from the store."""


class ClusterState:
    """One logical cluster, as authorization sees it."""

    __slots__ = ("facts", "name", "policy", "replicated", "serial")

    def __init__(self, name: str, content: ClusterRules, serial: int) -> None:
        at_once(self._build(name, content, serial))

    @classmethod
    def in_steps(cls, name: str, content: ClusterRules, serial: int) -> Steps[ClusterState]:
        state = cls.__new__(cls)
        yield from state._build(name, content, serial)
        return state

    def _build(self, name: str, content: ClusterRules, serial: int) -> Steps[None]:
        self.name = name
        self.policy = yield from ClusterPolicy.in_steps(content.objects)
        self.replicated: ClusterPolicy | None = None
        if content.replicated is not None:
            self.replicated = yield from ClusterPolicy.in_steps(content.replicated)
        found = content.logical_cluster
        self.facts = None if found is None else ClusterFacts.of(found)
        self.serial = serial
        """Changes whenever a decision made in this cluster might."""

    @property
    def size(self) -> int:
        """Rules and grants, roughly: what it takes to keep it."""
        return self.policy.size + (self.replicated.size if self.replicated is not None else 0)


NOWHERE = ClusterState("", ClusterRules(), 0)
"""Where requests go that are for no logical cluster in particular."""


class NotLoaded(LookupError):
    """Evaluation needs a logical cluster that is not in memory: load it and try again."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.cluster = cluster


class RoleSource(Protocol):
    """Where authorization finds the roles and bindings of logical clusters."""

    def get(self, cluster: str) -> ClusterState | None:
        """The state if it is in memory."""

    async def load(self, cluster: str) -> ClusterState:
        """The state, read if need be."""


@dataclass(slots=True)
class _Read:
    """A cluster is being read."""

    done: asyncio.Future[ClusterState | None]
    is_current: bool = True
    """Whether nothing in the cluster has changed since it began."""


class RoleCache:
    """Cluster states by name, within bounds."""

    def __init__(self, load: Loader, remember: int = 2048, remember_size: int = 1_000_000) -> None:
        """Keeps so many states, of so many rules and grants together, roughly."""
        self._load = load
        usual = max(1, remember_size // remember)
        self._states: BoundedCache[str, ClusterState] = BoundedCache(
            "roles", remember, cost=lambda state: min(remember, max(1, state.size // usual))
        )
        self._admin: ClusterState | None = None
        self._serials = count(1)
        self._reading: dict[str, _Read] = {}
        """Clusters that are being read: each once at a time, since decoded roles may be large."""

    def get(self, cluster: str) -> ClusterState | None:
        if cluster == ADMIN_CLUSTER:
            return self._admin
        return self._states.get(cluster)

    async def load(self, cluster: str) -> ClusterState:
        """Read a cluster; what changed while reading is served once and not kept.

        Requests that need the same cluster wait for one read. Those that come after something
        has changed do not take what it brings, but that of the next one.
        """
        while (read := self._reading.get(cluster)) is not None:
            was_current = read.is_current
            found = await asyncio.shield(read.done)
            if found is None or not was_current:
                found = self.get(cluster)
            if found is not None:
                return found
        return await self._read(cluster)

    async def _read(self, cluster: str) -> ClusterState:
        read = self._reading[cluster] = _Read(asyncio.get_running_loop().create_future())
        state: ClusterState | None = None
        try:
            content = await self._load(cluster)
            steps = ClusterState.in_steps(cluster, content, next(self._serials))
            state = await in_slices(steps, cluster)
            if read.is_current:
                self._keep(state)
            return state
        finally:
            del self._reading[cluster]
            # None: the read failed, and one of those that wait tries again.
            read.done.set_result(state)

    def invalidate(self, cluster: str, resource: str) -> None:
        """An object of this resource changed in this cluster."""
        if resource not in WATCHED:
            return
        read = self._reading.get(cluster)
        if read is not None:
            read.is_current = False
        if cluster == ADMIN_CLUSTER:
            self._admin = None
            self.touch_all()
        else:
            self._states.pop(cluster)

    def touch(self, cluster: str) -> None:
        """Decisions in this cluster may change, though its roles did not."""
        state = self._states.get(cluster)
        if state is not None:
            state.serial = next(self._serials)

    def touch_all(self) -> None:
        """The same for all clusters."""
        for state in self._states.values():
            state.serial = next(self._serials)

    def clear(self) -> None:
        """Forget everything (the store was replaced or replayed)."""
        for read in self._reading.values():
            read.is_current = False
        self._states.clear()
        self._admin = None

    def _keep(self, state: ClusterState) -> None:
        if state.name == ADMIN_CLUSTER:
            self._admin = state
        else:
            self._states.put(state.name, state)
