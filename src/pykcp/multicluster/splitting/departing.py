"""What has to leave its cluster now, within the brakes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykcp.multicluster.scheduling import eviction
from pykcp.multicluster.scheduling.budget import EvictionBudget
from pykcp.multicluster.scheduling.decide import has_no_place
from pykcp.multicluster.scheduling.following import needed_in
from pykcp.multicluster.scheduling.model import ClusterDeparture, Question
from pykcp.multicluster.splitting.keys import RootKey
from pykcp.multicluster.splitting.parts import SplitterParts


@dataclass(frozen=True, slots=True)
class Departures:
    now: dict[str, ClusterDeparture]
    again_after: float | None = None
    is_paused: bool = False
    """Most clusters seem lost: nothing leaves them."""
    held: tuple[str, ...] = ()
    """Clusters that may still run what must not run twice."""
    stranded: tuple[str, ...] = ()
    """Clusters that are lost, while no other one could run what they have."""


@dataclass(slots=True)
class _Due:
    """What has to leave, before the brakes."""

    now: dict[str, ClusterDeparture]
    waits: list[float]
    held: list[str]
    is_paused: bool = False


class WorkloadDepartures:
    def __init__(self, parts: SplitterParts) -> None:
        self._parts = parts
        settings = parts.settings
        self._budget: EvictionBudget[RootKey] = EvictionBudget(
            settings.evictions_per_cluster, settings.evictions_per_second
        )
        self._panics: set[str] = set()
        self._calm_since: dict[str, float] = {}
        """When workspaces in which most clusters seemed lost had enough of them again."""

    def note_clusters(self, workspace: str) -> None:
        """Clusters of a workspace changed. When many seemed lost and return one after the other,
        the last ones get the whole toleration again.
        """
        if eviction.is_panic(list(self._parts.territory.clusters(workspace).values())):
            self._panics.add(workspace)
        elif workspace in self._panics:
            self._panics.discard(workspace)
            self._calm_since[workspace] = self._parts.clock()

    def of(self, question: Question, key: RootKey) -> Departures:
        workload, policy = question.workload, question.policy
        if workload.is_follower and not policy.placement:
            return Departures({})
        due = self._due(question, key)
        stranded: tuple[str, ...] = ()
        lost = tuple(name for name, one in due.now.items() if one.reason == eviction.UNHEALTHY)
        if lost and has_no_place(replace(question, departing=due.now)):
            stranded = lost
        found: dict[str, ClusterDeparture] = {}
        for name, one in due.now.items():
            if name in stranded:
                continue
            wait = self.wait_to_leave(key, name, question.now) if one.is_limited else 0.0
            if wait > 0:
                due.waits.append(wait)
            else:
                found[name] = one
        again = min(due.waits, default=None)
        return Departures(found, again, due.is_paused, tuple(due.held), stranded)

    def _due(self, question: Question, key: RootKey) -> _Due:
        workload, policy = question.workload, question.policy
        due, needed = _Due({}, [], []), needed_in(workload)
        is_panic = key.cluster in self._panics
        for name in question.placed.clusters:
            if name in needed:
                continue  # it goes when those that need it have gone
            one = eviction.departure(
                name,
                question.clusters.get(name),
                workload,
                policy,
                self._parts.settings.toleration,
                self._calm_since.get(key.cluster, 0.0),
            )
            if one is None:
                continue
            if one.due > question.now:
                due.waits.append(one.due - question.now)
            elif eviction.is_held(one, workload, policy):
                due.held.append(name)
            elif one.is_limited and one.reason == eviction.UNHEALTHY and is_panic:
                due.is_paused = True
            else:
                due.now[name] = one
        return due

    def wait_to_leave(self, key: RootKey, cluster: str, now: float) -> float:
        """Seconds until a workload may leave a cluster; 0 if it does so now."""
        view = self._parts.territory.clusters(key.cluster).get(cluster)
        identity = view.identity if view is not None else f"{key.cluster}/{cluster}"
        return self._budget.take(identity, key.cluster, key, now)
