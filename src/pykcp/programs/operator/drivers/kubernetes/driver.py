"""Applies workloads to an API server and reads back how they are."""

from __future__ import annotations

from collections.abc import Iterable

from pykcp.clients.interface import Writer
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET
from pykcp.programs.operator.configuration.status import ReplicaCounts
from pykcp.programs.operator.records import ConfigRecord
from pykcp.types import Object

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
SERVICES = GroupVersionResource("", "v1", "services")
SECRETS = GroupVersionResource("", "v1", "secrets")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
VOLUME_CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")

APPLIED = {
    "Deployment": DEPLOYMENTS,
    "Service": SERVICES,
    "PersistentVolumeClaim": VOLUME_CLAIMS,
    SECRET: SECRETS,
    CONFIG_MAP: CONFIG_MAPS,
}
HOST = ""
"""The cluster whose objects these are: the server itself."""


class KubernetesDriver:
    """Server-side apply, as the owner of every field that it sets."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def write(self, namespace: str, records: Iterable[ConfigRecord]) -> list[Object]:
        """Write Secrets and ConfigMaps; what the server has made of them."""
        return [await self.apply(record.to_object(namespace)) for record in records]

    async def apply(self, obj: Object) -> Object:
        """Make an object what it should be; what the server has made of it."""
        return await self._writer.apply(HOST, APPLIED[obj["kind"]], obj, force=True)


def deployment_state(deployment: Object | None, wanted: int) -> ReplicaCounts:
    """How far a rollout is."""
    if deployment is None:
        return ReplicaCounts(wanted, 0, 0, exists=False)
    metadata, status = deployment["metadata"], deployment.get("status") or {}
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        return ReplicaCounts(wanted, 0, status.get("readyReplicas") or 0, "the rollout has begun")
    desired = (deployment.get("spec") or {}).get("replicas")
    return ReplicaCounts(
        wanted if desired is None else desired,
        status.get("updatedReplicas") or 0,
        status.get("readyReplicas") or 0,
        _problem(status),
    )


def _problem(status: Object) -> str:
    """What Kubernetes says is wrong, if it does."""
    for condition in status.get("conditions") or ():
        is_failure = condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
        is_stuck = condition.get("reason") == "ProgressDeadlineExceeded"
        if is_failure or is_stuck:
            return str(condition.get("message") or "")
    return ""
