"""Physical clusters behind workspaces: how they are judged and what is synchronized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.programs.kit.checks import choice, not_negative, positive
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.multicluster.clusters.settings import ClusterSettings

_MODES = ("Push", "Pull", "None")


class ClusterOptions(OptionGroup):
    TITLE = "Clusters"

    cluster_probe_interval: float = option(
        "Time between two looks whether a cluster of the mode Push is ready.", 10.0, check=positive
    )
    cluster_heartbeat_threshold: float = option(
        "Time without a heartbeat of its syncer after which a cluster is not ready.",
        40.0,
        check=positive,
    )
    cluster_recovery: float = option(
        "Time for which a cluster that was not ready must be well before it is ready again.",
        30.0,
        check=not_negative,
    )
    cluster_deletion_grace: float = option(
        "Time for which the deletion of a Cluster waits for a cluster that cannot be reached. After it, objects are left behind there.",
        600.0,
        check=not_negative,
    )
    resources_to_sync: tuple[str, ...] = option(
        "Types that are imported from clusters and synchronized (deployments.apps, *.example.com), unless a Cluster lists others. Empty: the usual types of workloads.",
        (),
    )
    auto_publish_apis: bool = option(
        "Serve imported types in the workspace at once, without spec.publish of the NegotiatedAPIResource.",
        True,
    )
    syncer_image: str = option(
        "Image of the syncer that is installed in clusters of the mode Pull.", ""
    )

    def default_mode(self) -> str:
        """The mode of Clusters without `spec.mode`."""
        return _MODES[0]

    def cluster_settings(self) -> ClusterSettings:
        # Imported late: most servers have no clusters.
        from pykcp.multicluster.clusters.settings import DEFAULT_RESOURCES, ClusterSettings

        return ClusterSettings(
            mode=self.default_mode(),
            resources=self.resources_to_sync or DEFAULT_RESOURCES,
            publishes_types=self.auto_publish_apis,
            syncer_image=self.syncer_image,
            probe_interval=self.cluster_probe_interval,
            heartbeat_expiry=self.cluster_heartbeat_threshold,
            recovery=self.cluster_recovery,
            deletion_grace=self.cluster_deletion_grace,
        )


class MulticlusterOptions(ClusterOptions):
    """For shards."""

    cluster_mode: str = option(
        "Who runs the syncers of Clusters without spec.mode: this server (Push), a Deployment in the cluster (Pull), an operator (None).",
        "Push",
        check=choice(*_MODES),
    )

    cluster_controllers: bool = option(
        "Run the controllers of Clusters in this server; without them, the program cluster-controller does.",
        True,
    )

    def default_mode(self) -> str:
        return self.cluster_mode
