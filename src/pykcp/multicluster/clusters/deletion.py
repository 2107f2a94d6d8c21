"""Deletion of a Cluster: its objects leave the cluster first, if it can be reached.

Objects of the workspace that were assigned to the cluster lose the assignment; the syncer then
removes the copies and its finalizers. A cluster that cannot be reached is waited for, and then its
copies are left behind: they are reported, and the finalizers are removed so that nothing of the
workspace is blocked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Conflict, Forbidden, NotFound, ServiceUnavailable
from pykcp.multicluster.clusters.held import HeldObject, ObjectsOfClusters, held_in
from pykcp.multicluster.clusters.served import ServedWorkspace
from pykcp.multicluster.names import (
    CLUSTER_FINALIZER,
    CLUSTER_LABEL,
    CLUSTERS,
    FORCE_DELETE,
    OWNED_BY,
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
    types: frozenset[str] = frozenset()
    """Of the remaining objects; the list of the Cluster may lack some of them."""


class ClusterRemoval:
    def __init__(
        self,
        held: ObjectsOfClusters,
        client: Client,
        grace: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._held, self._client = held, client
        self._grace, self._clock = grace, clock

    async def step(self, cluster: Object, key: ObjectKey, *, is_reachable: bool) -> DeletionStep:
        """Do what can be done now; the finalizer of the Cluster goes with the last step."""
        left = self._seconds_left(cluster, is_reachable)
        try:
            remaining = await self._remaining(cluster, key)
        except ServiceUnavailable:  # a shard whose workspaces are served does not answer
            if left > 0:
                return DeletionStep(False, 1, min(left, _AGAIN_SECONDS))
            raise
        if remaining:
            if left > 0:
                types = frozenset(
                    ".".join(filter(None, (one.kind.resource, one.kind.version, one.kind.group)))
                    for one in remaining
                )
                return DeletionStep(False, len(remaining), min(left, _AGAIN_SECONDS), types)
            await self._abandon(key, remaining)
        await self._release(key)
        return DeletionStep(True)

    async def _remaining(self, cluster: Object, key: ObjectKey) -> list[HeldObject]:
        """What may have a copy in the cluster; the assignment is taken from everything."""
        found: dict[str, HeldObject] = {}
        places = await self._held.places(key)
        listed = {
            (one.get("group") or "", one["resource"])
            for one in (cluster.get("status") or {}).get("syncedResources") or ()
        }
        for kind in await self._held.types(cluster, key):
            try:
                for place in places:
                    await _unassign_all(place, kind)
                    async for one in held_in(place, kind):
                        found[one.metadata.uid] = one  # once, of a type with several versions
            except Forbidden:
                if (kind.group, kind.resource) in listed:
                    raise
                # A controller that may not see a type never synchronized it.
        return list(found.values())

    def _seconds_left(self, cluster: Object, is_reachable: bool) -> float:
        """How long copies are waited for; as long as it takes while the cluster is reachable."""
        if meta.annotations(cluster).get(FORCE_DELETE) == "true":
            return 0.0
        if is_reachable:
            return _AGAIN_SECONDS
        asked = meta.parse_rfc3339(meta.deletion_timestamp(cluster))
        return asked + self._grace - self._clock()

    async def _abandon(self, key: ObjectKey, remaining: list[HeldObject]) -> None:
        _log.warning(
            "cluster %s of %s is deleted, %d objects may be left in it: %s",
            key.name,
            key.cluster,
            len(remaining),
            ", ".join(map(str, remaining[:_NAMED])),
        )
        for place, kind, metadata in remaining:
            strip = _without(place.finalizer)
            try:
                await place.client.change(
                    place.name, kind, metadata.name, strip, metadata.namespace
                )
            except NotFound:
                continue

    async def _release(self, key: ObjectKey) -> None:
        try:
            await self._client.change(key.cluster, CLUSTERS, key.name, _without(CLUSTER_FINALIZER))
        except NotFound:
            return


def _without(finalizer: str) -> Callable[[Object], None]:
    def strip(live: Object) -> None:
        meta.remove_finalizer(live, finalizer)

    return strip


async def _unassign_all(place: ServedWorkspace, kind: GroupVersionResource) -> None:
    """Take the assignment from the objects of a type; none if the workspace does not serve it."""
    try:
        async for page in place.client.pages(
            place.name, kind, labels=f"{CLUSTER_LABEL}={place.label}"
        ):
            for obj in page:
                await _unassign(place, kind, obj)
    except NotFound:
        return


async def _unassign(place: ServedWorkspace, kind: GroupVersionResource, obj: Object) -> None:
    name, namespace = meta.name(obj), meta.namespace(obj)
    try:
        if OWNED_BY in meta.labels(obj):  # the part of a workload that ran there
            if not meta.is_deleting(obj):
                await place.client.delete(place.name, kind, name, namespace, uid=meta.uid(obj))
            return
        patch = {"metadata": {"labels": {CLUSTER_LABEL: None}}}
        await place.client.patch(place.name, kind, name, patch, namespace)
    except (NotFound, Conflict):
        return  # it went, or was made anew: the next step sees it
