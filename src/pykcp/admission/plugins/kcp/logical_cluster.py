"""LogicalClusters: protects system fields, and checks phases and creation."""

from __future__ import annotations

from pykcp.admission.plugins.object_count import ANNOTATION as OBJECT_LIMIT
from pykcp.admission.refusing import refusal
from pykcp.apis.kube.validation import logicalcluster as rules
from pykcp.auth.user import (
    EXTERNAL_LOGICAL_CLUSTER_ADMIN,
    KCP_ADMIN,
    LOGICAL_CLUSTER_ADMIN,
    MASTERS,
    WORKSPACE_BOOTSTRAPPER,
)
from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.registry.verbs.admitting import AdmissionRequest

_EXEMPT = frozenset(
    (
        MASTERS,
        LOGICAL_CLUSTER_ADMIN,
        EXTERNAL_LOGICAL_CLUSTER_ADMIN,
        WORKSPACE_BOOTSTRAPPER,
    )
)


class LogicalClusterRules:
    name = "core.kcp.io/LogicalCluster"
    kind = LOGICAL_CLUSTERS

    def __init__(self, *, keeps_object_limit: bool = True) -> None:
        """`keeps_object_limit`: its annotation is the operator's to write, unlike in kcp."""
        self._kept = (OBJECT_LIMIT,) if keeps_object_limit else ()

    def wants(self, request: AdmissionRequest) -> bool:
        return True

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.operation == "UPDATE":
            assert request.obj is not None
            assert request.old is not None
            rules.begin_initializing(request.obj, request.old)

    async def validate(self, request: AdmissionRequest) -> None:
        if not _EXEMPT.isdisjoint(request.context.user.groups):
            return
        why = _why_not(request) or self._lifted(request)
        if why is not None:
            raise refusal(request, why)

    def _lifted(self, request: AdmissionRequest) -> str | None:
        if request.obj is None or request.old is None or KCP_ADMIN in request.context.user.groups:
            return None  # kcp-admin administers the installation, not one workspace
        before, after = meta.annotations(request.old), meta.annotations(request.obj)
        for key in self._kept:
            if before.get(key) != after.get(key):
                return f"metadata.annotations[{key}] can only be changed by system privileged users"
        return None


def _why_not(request: AdmissionRequest) -> str | None:
    if request.operation == "CREATE":
        return "LogicalCluster cannot be created"
    old = request.old
    assert old is not None
    if request.operation == "DELETE":
        is_deletable = (old.get("spec") or {}).get("directlyDeletable")
        return None if is_deletable else "LogicalCluster cannot be deleted"
    assert request.obj is not None
    return rules.refusal(request.obj, old)
