"""Which shard a new workspace is placed on. Pure.

A shard qualifies if it matches the workspace's selector, is not cordoned, has sent a heartbeat
recently and has room below its hard limit. Shards below their soft limit are preferred. Of two
shards chosen at random the less loaded one is taken: this spreads workspaces nearly as evenly as
comparing all shards, and parents that decide at the same time do not all pick the same shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import NamedTuple

from pykcp.apis.kcp.logical_clusters import UNSCHEDULABLE_ANNOTATION
from pykcp.apis.kcp.shard_load import ShardLoad
from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, SOFT_LIMIT_ANNOTATION, limit_of
from pykcp.machinery import labels, meta
from pykcp.types import Object

NO_SHARDS = "No available shards to schedule the workspace"


class ShardState(NamedTuple):
    """What placement knows of a shard."""

    name: str
    labels: Mapping[str, str]
    is_cordoned: bool = False
    soft_limit: int | None = None
    hard_limit: int | None = None
    report: ShardLoad | None = None
    """What it last said of itself; None if it never did."""

    recent: int = 0
    """Workspaces that were placed there since that report."""

    @property
    def clusters(self) -> int:
        reported = self.report.logical_clusters if self.report is not None else 0
        return reported + self.recent

    @property
    def is_full(self) -> bool:
        return self.hard_limit is not None and self.clusters >= self.hard_limit

    @property
    def is_above_soft_limit(self) -> bool:
        return self.soft_limit is not None and self.clusters >= self.soft_limit

    @property
    def load(self) -> float:
        """The share of its room that is used, or the number of logical clusters without limits."""
        limit = self.soft_limit or self.hard_limit
        return self.clusters / limit if limit else float(self.clusters)


class ReportArrivals:
    """When reports of other shards arrived here: the clocks of their hosts may be wrong."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float | None]] = {}
        """By shard: the time that its last report names, and when that came."""

    def note(self, shard: str, report: ShardLoad | None, now: float) -> None:
        if report is None:
            return
        known = self._last.get(shard)
        if known is None:
            self._last[shard] = (report.reported, None)  # it may be old
        elif known[0] != report.reported:
            self._last[shard] = (report.reported, now)

    def by_own_clock(self, shard: str, report: ShardLoad | None) -> ShardLoad | None:
        """A report with the time at which it came, if that is known."""
        reported, arrived = self._last.get(shard, (0.0, None))
        if report is None or arrived is None or reported != report.reported:
            return report
        return report._replace(reported=arrived)


class RecentPlacements:
    """What this shard placed on others since they last reported.

    Without it, all workspaces between two reports would go to the shard that had the fewest.
    """

    def __init__(self) -> None:
        self._placed: dict[str, tuple[float, int]] = {}

    def add(self, shard: str, report: ShardLoad | None) -> None:
        self._placed[shard] = (_moment(report), self.since(shard, report) + 1)

    def since(self, shard: str, report: ShardLoad | None) -> int:
        moment, number = self._placed.get(shard, (0.0, 0))
        return number if moment == _moment(report) else 0


def _moment(report: ShardLoad | None) -> float:
    return report.reported if report is not None else 0.0


def state_of(shard: Object, report: ShardLoad | None = None, recent: int = 0) -> ShardState:
    """The state that a Shard object describes, with the shard's own report."""
    annotations = meta.annotations(shard)
    return ShardState(
        meta.name(shard),
        meta.labels(shard),
        UNSCHEDULABLE_ANNOTATION in annotations,
        limit_of(shard, SOFT_LIMIT_ANNOTATION),
        limit_of(shard, HARD_LIMIT_ANNOTATION),
        report,
        recent,
    )


def choose(
    shards: Iterable[ShardState],
    selector: labels.LabelSelector,
    now: float,
    random: Random,
    *,
    excluded: Collection[str] = (),
) -> str | None:
    """The name of the shard for a workspace; None if none qualifies.

    `excluded`: shards that are known not to answer, or to have refused this workspace.
    """
    fitting = [
        shard
        for shard in shards
        if shard.name not in excluded
        and not shard.is_cordoned
        and not shard.is_full
        and is_alive(shard, now)
        and selector.matches(shard.labels)
    ]
    preferred = [shard for shard in fitting if not shard.is_above_soft_limit] or fitting
    if not preferred:
        return None
    some = random.sample(preferred, min(2, len(preferred)))
    return min(some, key=lambda shard: shard.load).name


def is_alive(shard: ShardState, now: float) -> bool:
    """Whether a shard has reported recently. One that never reports counts as alive, as in kcp."""
    return shard.report is None or shard.report.is_alive(now)
