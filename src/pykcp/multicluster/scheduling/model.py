"""The snapshot that a placement is decided on, and the decision.

All values are immutable and built from API objects by `snapshot.py` and `policy.py`; nothing here
reads a clock or an API server, so that each decision can be repeated and tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pykcp.machinery.labels import LabelSelector

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"

DUPLICATED, DIVIDED, SINGLE = "Duplicated", "Divided", "Single"
EVEN, WEIGHTED, CAPACITY, AGGREGATED = "Even", "Weighted", "Capacity", "Aggregated"
GRACEFULLY, DIRECTLY, NEVER = "Gracefully", "Directly", "Never"

EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: str
    value: str = ""
    since: float = 0.0
    """When it was set, in seconds; taints of users have no time and count from the beginning."""


@dataclass(frozen=True, slots=True)
class TaintToleration:
    key: str = ""
    """Empty: every key."""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    """Empty: every effect."""
    seconds: float | None = None
    """How long NoExecute is tolerated; None: without an end."""

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A registered cluster as the scheduler sees it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_ready: bool = True
    ready_since: float = 0.0
    """When it became Ready, or stopped to be."""
    is_reachable: bool = True
    """False: not Ready since nothing was heard of it (Unknown)."""
    is_terminating: bool = False
    unschedulable: bool = False
    evict_after: float | None = None
    taints: tuple[Taint, ...] = ()
    types: frozenset[str] = frozenset()
    """The resources it accepts, as `deployments.apps`."""
    free: Mapping[str, int] | None = None
    """Allocatable minus requested, in thousandths; None: not known."""
    bindings: int = 0
    """How many workloads are placed on it."""
    serves_others: bool = True
    """False: its syncer sees the workspace of its registration only."""
    is_closed: bool = False
    """Its syncer does not see the workspace of the workload."""
    identity: str = ""
    """Of its registration: the same in all workspaces that it serves."""


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """Clusters by label and name, and what they weigh."""

    selector: LabelSelector = EVERYTHING
    names: frozenset[str] = frozenset()
    weight: int = 1
    excluded: frozenset[str] = frozenset()

    def matches(self, cluster: ClusterView) -> bool:
        if cluster.name in self.excluded or (self.names and cluster.name not in self.names):
            return False
        return self.selector.matches(cluster.labels)


@dataclass(frozen=True, slots=True)
class SpreadRule:
    topology_key: str
    """A label of clusters; `cluster` counts the clusters themselves."""
    minimum: int = 1
    maximum: int = 0
    """0: no limit."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a Placement asks for; the defaults are those without a Placement."""

    placement: str = ""
    """The name of the Placement; empty: none."""
    strategy: str = DUPLICATED
    required: tuple[WeightedTerm, ...] = ()
    """One of them has to match; none: every cluster does."""
    preferred: tuple[WeightedTerm, ...] = ()
    tolerations: tuple[TaintToleration, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    preference: str = EVEN
    weights: tuple[WeightedTerm, ...] = ()
    minimum: int = 0
    maximum: int = 0
    """0: no limit."""
    purge_mode: str = GRACEFULLY
    grace: float = 600.0
    toleration: float | None = None
    """Seconds for which a cluster may be not Ready; None: the default of the controller."""
    rebalances: bool = True
    moves_per_minute: int = 0
    """0: no limit."""
    problems: tuple[str, ...] = ()
    """What is wrong with the Placement."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """The object that is placed."""

    uid: str
    type: str
    """As `deployments.apps`."""
    replicas: int | None = None
    """None: it has no replicas."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """Of one replica, in thousandths."""
    is_exclusive: bool = False
    """It must not run twice: a move ends in one cluster before it begins in the next."""
    leaders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For a follower: the workloads that need it, with the clusters of each."""
    is_follower: bool = False
    keeps_data: bool = False
    """Its copies hold what exists nowhere else."""
    together: frozenset[str] | None = None
    """The clusters of the workloads that it has to be with; None: no such rule, or none placed."""
    apart: frozenset[str] = frozenset()
    """The clusters of the workloads that it has to be kept away from."""


def is_duplicated(workload: WorkloadView, policy: Policy) -> bool:
    """Whether each cluster has a whole copy: none of them replaces another one."""
    is_divided = policy.strategy == DIVIDED and workload.replicas is not None
    return not is_divided and policy.strategy != SINGLE


@dataclass(frozen=True, slots=True)
class Leaving:
    """Replicas that stay in a cluster until those that replace them are available."""

    cluster: str
    since: float
    deadline: float
    reason: str
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a workload is now."""

    clusters: Mapping[str, int | None] = field(default_factory=dict)
    leaving: tuple[Leaving, ...] = ()
    available: Mapping[str, int | None] = field(default_factory=dict)
    """By cluster, as last reported; None: available, but without a number."""
    leaves: frozenset[str] = frozenset()
    """The clusters in which there is a leaf, also one that is being deleted."""
    moved_at: float = 0.0
    """When the last rebalancing step was taken."""


@dataclass(frozen=True, slots=True)
class ClusterDeparture:
    """A workload has to leave a cluster."""

    cluster: str
    reason: str
    due: float
    """When it has to leave, in seconds."""
    is_lost: bool = False
    """The cluster cannot be asked to stop what it runs."""
    is_limited: bool = True
    """Whether brakes and rates apply."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is decided on: a workload, its placement, the clusters, and where it is now."""

    workload: WorkloadView
    policy: Policy
    clusters: Mapping[str, ClusterView]
    placed: Placed = field(default_factory=Placed)
    departing: Mapping[str, ClusterDeparture] = field(default_factory=dict)
    """The clusters to leave now."""
    now: float = 0.0
    cooldown: float = 60.0
    """Seconds that a cluster has to be Ready before work moves to it, and between two moves."""
    caps: Mapping[str, int] = field(default_factory=dict)
    """Replicas that clusters can have, as far as that was tried: others found no node there."""

    stay: Mapping[str, int | None] = field(init=False)
    """The clusters that the workload is in and does not leave."""

    def __post_init__(self) -> None:
        stay = {n: c for n, c in self.placed.clusters.items() if n not in self.departing}
        object.__setattr__(self, "stay", stay)


class ClusterVerdict(NamedTuple):
    """What the scheduler found about one cluster; there is one for each in every decision."""

    cluster: str
    rejection: str = ""
    """Why it was not considered, as in `count cluster(s) <rejection>`; empty: it was."""
    scores: tuple[int, ...] = ()
    """In the order of `scores.WEIGHTS`."""
    total: int = 0


@dataclass(frozen=True, slots=True)
class PlacementDecision:
    clusters: Mapping[str, int | None]
    reasons: Mapping[str, str]
    """Of each chosen cluster: why it was chosen."""
    verdicts: tuple[ClusterVerdict, ...]
    leaving: tuple[Leaving, ...] = ()
    is_scheduled: bool = True
    reason: str = "Scheduled"
    message: str = ""
    evicted: tuple[str, ...] = ()
    """Clusters that the workload began to leave in this decision."""
    moved: str = ""
    """What was rebalanced in this decision."""
    again_after: float | None = None
    """Seconds after which the decision may be another one although nothing changed."""
