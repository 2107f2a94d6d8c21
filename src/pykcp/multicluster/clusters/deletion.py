"""Deletion of a Cluster: its objects leave the cluster first, if it can be reached.

Objects of the workspace that were assigned to the cluster lose the assignment; the syncer then
removes the copies and its finalizers. A cluster that cannot be reached is waited for, and then its
copies are left behind: they are reported, and the finalizers are removed so that nothing of the
workspace is blocked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Conflict, NotFound
from pykcp.multicluster.names import (
    CLUSTER_FINALIZER,
    CLUSTER_LABEL,
    CLUSTERS,
    FORCE_DELETE,
    OWNED_BY,
    syncer_finalizer,
)
from pykcp.types import Object

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0
_NAMED = 5


class DeletionStep(NamedTuple):
    is_done: bool
    remaining: int = 0
    """Objects of which copies may exist in the cluster."""
    seconds: float = _AGAIN_SECONDS
    """Until the next step."""


class ClusterRemoval:
    def __init__(
        self, client: Client, grace: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._client, self._grace, self._clock = client, grace, clock

    async def step(self, cluster: Object, key: ObjectKey, *, is_reachable: bool) -> DeletionStep:
        """Do what can be done now; the finalizer of the Cluster goes with the last step."""
        remaining: list[tuple[GroupVersionResource, Object]] = []
        finalizer = syncer_finalizer(key.name)
        async for kind, obj in self._objects(cluster, key):
            if meta.labels(obj).get(CLUSTER_LABEL) == key.name:
                await self._unassign(key, kind, obj)
            if meta.has_finalizer(obj, finalizer):
                remaining.append((kind, obj))
        if remaining:
            left = self._seconds_left(cluster, is_reachable)
            if left > 0:
                return DeletionStep(False, len(remaining), min(left, _AGAIN_SECONDS))
            await self._abandon(key, remaining, finalizer)
        await self._release(key)
        return DeletionStep(True)

    def _seconds_left(self, cluster: Object, is_reachable: bool) -> float:
        """How long copies are waited for; as long as it takes while the cluster is reachable."""
        if meta.annotations(cluster).get(FORCE_DELETE) == "true":
            return 0.0
        if is_reachable:
            return _AGAIN_SECONDS
        asked = meta.parse_rfc3339(meta.deletion_timestamp(cluster))
        return asked + self._grace - self._clock()

    async def _objects(
        self, cluster: Object, key: ObjectKey
    ) -> AsyncIterator[tuple[GroupVersionResource, Object]]:
        """The objects of all types that were synchronized."""
        for synced in (cluster.get("status") or {}).get("syncedResources") or ():
            kind = GroupVersionResource(
                synced.get("group") or "", synced.get("version") or "v1", synced["resource"]
            )
            try:
                async for page in self._client.pages(key.cluster, kind):
                    for obj in page:
                        yield kind, obj
            except NotFound:
                continue  # the workspace does not serve the type any longer

    async def _unassign(self, key: ObjectKey, kind: GroupVersionResource, obj: Object) -> None:
        name, namespace = meta.name(obj), meta.namespace(obj)
        try:
            if OWNED_BY in meta.labels(obj):  # the part of a workload that ran there
                if not meta.is_deleting(obj):
                    await self._client.delete(key.cluster, kind, name, namespace, uid=meta.uid(obj))
                return
            patch = {"metadata": {"labels": {CLUSTER_LABEL: None}}}
            await self._client.patch(key.cluster, kind, name, patch, namespace)
        except (NotFound, Conflict):
            return  # it went, or was made anew: the next step sees it

    async def _abandon(
        self,
        key: ObjectKey,
        remaining: list[tuple[GroupVersionResource, Object]],
        finalizer: str,
    ) -> None:
        names = [f"{meta.namespace(obj)}/{meta.name(obj)}" for _, obj in remaining]
        _log.warning(
            "cluster %s of %s is deleted, %d objects may be left in it: %s",
            key.name,
            key.cluster,
            len(names),
            ", ".join(names[:_NAMED]),
        )
        for kind, obj in remaining:

            def strip(live: Object) -> None:
                meta.remove_finalizer(live, finalizer)

            try:
                await self._client.change(
                    key.cluster, kind, meta.name(obj), strip, meta.namespace(obj)
                )
            except NotFound:
                continue

    async def _release(self, key: ObjectKey) -> None:
        def strip(live: Object) -> None:
            meta.remove_finalizer(live, CLUSTER_FINALIZER)

        try:
            await self._client.change(key.cluster, CLUSTERS, key.name, strip)
        except NotFound:
            return
