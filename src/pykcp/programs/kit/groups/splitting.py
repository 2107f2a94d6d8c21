"""Placement of workloads on clusters: times and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.programs.kit.checks import not_negative, positive
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.multicluster.splitting.parts import SplitterSettings


class SplittingOptions(OptionGroup):
    TITLE = "Placement of workloads"

    eviction_toleration: float = option(
        "Time for which a cluster may be not ready before its workloads are moved, unless a Placement says otherwise.",
        120.0,
        check=not_negative,
    )
    evictions_per_second: int = option(
        "Workloads of a workspace that leave clusters in a second at most, all clusters together.",
        5,
        check=positive,
    )
    cluster_evictions_per_second: int = option(
        "Workloads that leave one cluster in a second at most.", 1, check=positive
    )
    rebalance_cooldown: float = option(
        "Time for which a cluster must be ready before workloads are moved to it, and between two moves of a workload.",
        60.0,
        check=not_negative,
    )

    unschedulable_toleration: float = option(
        "Time for which replicas may find no node in their cluster before they are placed on another one; 0: for ever.",
        300.0,
        check=not_negative,
    )

    def splitter_settings(self) -> SplitterSettings:
        # Imported late: most servers have no clusters.
        from pykcp.multicluster.splitting.parts import SplitterSettings

        return SplitterSettings(
            toleration=self.eviction_toleration,
            cooldown=self.rebalance_cooldown,
            stuck_toleration=self.unschedulable_toleration,
            evictions_per_second=self.evictions_per_second,
            evictions_per_cluster=self.cluster_evictions_per_second,
        )


class ShardSplittingOptions(SplittingOptions):
    """For shards."""

    split_workloads: bool = option(
        "Place the workloads of workspaces that have clusters. Turn it off to run deployment-splitter instead.",
        True,
    )

    def shard_settings(self) -> SplitterSettings | None:
        return self.splitter_settings() if self.split_workloads else None
