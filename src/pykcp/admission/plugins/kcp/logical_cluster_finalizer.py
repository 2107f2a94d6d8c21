"""The finalizer of a logical cluster, which remains until its content is deleted."""

from __future__ import annotations

from pykcp.admission.plugins.kcp.finalizer import KeptFinalizer
from pykcp.apis.kcp.logical_clusters import DELETION_FINALIZER
from pykcp.machinery.resources import LOGICAL_CLUSTERS


class LogicalClusterDeletionFinalizer(KeptFinalizer):
    def __init__(self) -> None:
        super().__init__(
            "tenancy.kcp.io/LogicalClusterDeletionFinalizer", LOGICAL_CLUSTERS, DELETION_FINALIZER
        )
