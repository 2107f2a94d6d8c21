"""Numbers about syncers. Those of one process share them: nothing here grows with Clusters."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.observe.metrics import Counter, Gauge, Histogram, Registry

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class SyncMetrics:
    def __init__(self, registry: Registry | None = None) -> None:
        self.orphans: dict[str, int] = {}
        """By UID of the Cluster: copies that the last sweep kept for lack of proof."""
        self._queues: dict[str, Callable[[], int]] = {}
        self.sync_lag = Histogram(
            "pykcp_sync_lag_seconds",
            "Time from a change of an assigned object until it is applied in the cluster.",
            (),
            _SECONDS,
        )
        self.status_lag = Histogram(
            "pykcp_sync_status_lag_seconds",
            "Time from a change of a status in the cluster until it is written in the workspace.",
            (),
            _SECONDS,
        )
        self.applied = Counter(
            "pykcp_sync_apply_total", "Objects applied in clusters, by response code.", ("code",)
        )
        self.reported = Counter(
            "pykcp_sync_status_total",
            "Statuses written in workspaces, by response code.",
            ("code",),
        )
        self.deleted = Counter(
            "pykcp_sync_delete_total", "Copies deleted in clusters, by reason.", ("reason",)
        )
        self.drift = Counter(
            "pykcp_sync_drift_total", "Copies that were changed in the cluster and restored."
        )
        if registry is not None:
            registry.add(
                self.sync_lag,
                self.status_lag,
                self.applied,
                self.reported,
                self.deleted,
                self.drift,
                Gauge(
                    "pykcp_sync_orphans",
                    "Copies without an origin that are kept for lack of proof.",
                    lambda: sum(self.orphans.values()),
                ),
                Gauge(
                    "pykcp_sync_queue_depth",
                    "Objects waiting to be synced in either direction.",
                    lambda: sum(read() for read in self._queues.values()),
                ),
            )

    def follow(self, cluster: str, queued: Callable[[], int]) -> None:
        """Count the queue of a syncer; `cluster`: UID of its Cluster."""
        self._queues[cluster] = queued

    def forget(self, cluster: str) -> None:
        self._queues.pop(cluster, None)
        self.orphans.pop(cluster, None)
