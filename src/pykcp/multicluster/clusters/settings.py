"""How clusters are treated unless their objects say otherwise. Tests make the times shorter."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.multicluster.names import HEARTBEAT_EXPIRY_SECONDS, HEARTBEAT_SECONDS

PUSH, PULL, NONE = "Push", "Pull", "None"
MODES = (PUSH, PULL, NONE)

DEFAULT_RESOURCES = (
    "configmaps",
    "secrets",
    "serviceaccounts",
    "services",
    "persistentvolumeclaims",
    "pods",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "ingresses.networking.k8s.io",
    "horizontalpodautoscalers.autoscaling",
)
"""Types that are imported and synchronized, unless a Cluster names others."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Times in seconds."""

    mode: str = PUSH
    """For Clusters without `spec.mode`."""
    resources: tuple[str, ...] = DEFAULT_RESOURCES
    publishes_types: bool = True
    """Whether negotiated types are served at once."""
    syncer_image: str = ""
    """Image of the syncer that is installed in clusters of the mode Pull."""
    probe_interval: float = HEARTBEAT_SECONDS
    probe_timeout: float = 5.0
    failures: int = 3
    """Failed probes in a row after which a cluster is not ready."""
    heartbeat_expiry: float = HEARTBEAT_EXPIRY_SECONDS
    recovery: float = 30.0
    """For which a cluster that was not ready must be well before it is ready again."""
    deletion_grace: float = 600.0
    """For which the deletion of a Cluster waits for a cluster that cannot be reached."""
