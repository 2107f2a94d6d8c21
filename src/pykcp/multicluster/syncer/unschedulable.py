"""Replicas that no node of the cluster can take: counted, and noted on the objects they are of.

The scheduler of workloads moves them to another cluster after a while. Pods that fail for another
reason are not counted: they would fail elsewhere, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from pykcp.clients.interface import Client
from pykcp.machinery import conditions, meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.multicluster.names import UNSCHEDULABLE
from pykcp.multicluster.syncer.projections import Leaf
from pykcp.multicluster.syncer.render import CopyName
from pykcp.multicluster.syncer.state import StuckReplicas, parse_stuck
from pykcp.multicluster.syncer.work import SyncContext, TypeSync
from pykcp.types import Object

_log = logging.getLogger(__name__)
PODS = GroupVersionResource("", "v1", "pods")
_DEPLOYMENTS, _REPLICA_SETS = ("apps", "deployments"), ("apps", "replicasets")
_HASH_LABEL = "pod-template-hash"
_MOST_MESSAGE = 300


class UnschedulableReplicas:
    """`run` it."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._context.settings.unschedulable_interval)
            try:
                await self.look()
            except StatusError as error:  # pods may not be listed, or a server does not answer
                _log.debug("pods of cluster %s: %s", self._context.registration.name, error)

    async def look(self) -> None:
        """Note what there is now. Raises StatusError."""
        types = [self._context.types.get(name) for name in (_DEPLOYMENTS, _REPLICA_SETS)]
        followed = [one for one in types if one is not None and one.leaves]
        if not followed:
            return
        found = await stuck_replicas(self._context.downstream)
        for synced in followed:
            for leaf in synced.leaves:
                key = (synced.kind.resource, leaf.target)
                await self._note(synced, leaf, found.get(key))

    async def _note(self, synced: TypeSync, leaf: Leaf, stuck: StuckReplicas | None) -> None:
        before = parse_stuck(leaf.unschedulable)
        if (stuck.replicas if stuck else 0) == (before.replicas if before else 0):
            return  # what the pods say in detail changes all the time
        value = stuck.to_json() if stuck is not None else None
        patch = {"metadata": {"uid": leaf.uid, "annotations": {UNSCHEDULABLE: value}}}
        cluster, namespace, name = leaf.key
        try:
            await self._context.upstream.patch(cluster, synced.kind, name, patch, namespace)
        except NotFound:
            return  # its deletion follows


async def stuck_replicas(cluster: Client) -> Mapping[tuple[str, CopyName], StuckReplicas]:
    """By resource and name of what the pods belong to."""
    found: dict[tuple[str, CopyName], StuckReplicas] = {}
    async for page in cluster.pages("", PODS, fields="status.phase=Pending"):
        for pod in page:
            message = _refusal(pod)
            for owner in _owners(pod) if message is not None else ():
                count = found[owner].replicas if owner in found else 0
                found[owner] = StuckReplicas(count + 1, (message or "")[:_MOST_MESSAGE])
    return found


def _refusal(pod: Object) -> str | None:
    """Why no node takes the pod; None if one did, or none was asked yet."""
    scheduled = conditions.find((pod.get("status") or {}).get("conditions") or (), "PodScheduled")
    if scheduled is None or scheduled.get("status") != conditions.FALSE:
        return None
    if scheduled.get("reason") != "Unschedulable" or meta.is_deleting(pod):
        return None
    return str(scheduled.get("message") or "")


def _owners(pod: Object) -> Iterator[tuple[str, CopyName]]:
    """The ReplicaSet of a pod, and the Deployment of that one."""
    reference = meta.controller_of(pod)
    if reference is None or reference.get("kind") != "ReplicaSet":
        return
    namespace, name = meta.namespace(pod), str(reference.get("name") or "")
    yield "replicasets", CopyName(namespace, name)
    suffix = f"-{meta.labels(pod).get(_HASH_LABEL, '')}"
    if len(suffix) > 1 and name.endswith(suffix):
        yield "deployments", CopyName(namespace, name.removesuffix(suffix))
