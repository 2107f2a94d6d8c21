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
from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, SOFT_LIMIT_ANNOTATION, limit_of
from pykcp.machinery import labels, meta
from pykcp.types import Object

DEAD_SECONDS = 15.0
"""A shard whose last report is older gets no workspaces."""
NO_SHARDS = "No available shards to schedule the workspace"


class ShardState(NamedTuple):
    """What placement knows of a shard."""

    name: str
    labels: Mapping[str, str]
    is_cordoned: bool = False
    soft_limit: int | None = None
    hard_limit: int | None = None
    reported: float | None = None
    """When it last reported, in seconds since 1970; None if it never did."""
    clusters: int = 0
    """Logical clusters on it, as last reported."""

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


def state_of(shard: Object) -> ShardState:
    """The state that a Shard object describes."""
    annotations = meta.annotations(shard)
    return ShardState(
        meta.name(shard),
        meta.labels(shard),
        UNSCHEDULABLE_ANNOTATION in annotations,
        limit_of(shard, SOFT_LIMIT_ANNOTATION),
        limit_of(shard, HARD_LIMIT_ANNOTATION),
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
    return shard.reported is None or now - shard.reported <= DEAD_SECONDS
