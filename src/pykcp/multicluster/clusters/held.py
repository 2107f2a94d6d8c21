"""Objects of which copies may exist in a cluster: those that carry the finalizer of its syncer.

Which types a cluster accepts changes, and says nothing of what it has. So all types are asked that
could ever be synchronized: those that every workspace has, and those that were negotiated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery.metadata import Metadata
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.served import ServedWorkspace, ServedWorkspaces
from pykcp.multicluster.importing.importer import built_in_types
from pykcp.multicluster.names import NEGOTIATED, negotiated_type
from pykcp.types import Object

_OWN_GROUPS = (".kcp.io", ".kcp.dev")
"""They belong to the workspace."""


class HeldObject(NamedTuple):
    """An object of which a copy may exist in the cluster."""

    place: ServedWorkspace
    kind: GroupVersionResource
    metadata: Metadata

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class ObjectsOfClusters:
    def __init__(self, served: ServedWorkspaces, client: Client) -> None:
        self._served, self._client = served, client

    async def places(self, key: ObjectKey) -> list[ServedWorkspace]:
        """The workspaces that a Cluster serves. Raises StatusError if a shard does not answer."""
        return await self._served.of(key.cluster, key.name)

    async def has_any(self, key: ObjectKey, kind: GroupVersionResource) -> bool:
        """Whether there may be objects of one type."""
        try:
            for place in await self.places(key):
                async for _ in held_in(place, kind):
                    return True
        except StatusError:
            return True  # that says nothing
        return False

    async def with_left(
        self, key: ObjectKey, found: list[Object], before: Iterable[Object]
    ) -> list[Object]:
        """The types of a Cluster, and those that it listed before and has objects of: their syncer
        follows them until these are gone.
        """
        left = []
        for one in report.without(before, found):
            kind = GroupVersionResource(
                one.get("group") or "", one.get("version") or "v1", one["resource"]
            )
            if await self.has_any(key, kind):
                left.append({**one, "state": report.INCOMPATIBLE, "message": report.LEFT})
        return report.in_order([*found, *left])

    async def types(self, cluster: Object, key: ObjectKey) -> list[GroupVersionResource]:
        """All types that may have been synchronized, also in several versions."""
        found: dict[GroupVersionResource, None] = {}
        for one in (cluster.get("status") or {}).get("syncedResources") or ():
            version = one.get("version") or "v1"
            found[GroupVersionResource(one.get("group") or "", version, one["resource"])] = None
        for resource in built_in_types("*"):
            if not resource.group.endswith(_OWN_GROUPS):
                found[resource.gvr] = None
        try:
            async for page in self._client.metadata(key.cluster, NEGOTIATED):
                found |= {negotiated_type(one.name): None for one in page}
        except NotFound:
            pass  # the workspace has unbound the kinds of multi-cluster
        return list(found)


async def held_in(place: ServedWorkspace, kind: GroupVersionResource) -> AsyncIterator[HeldObject]:
    """The objects of a type in a workspace; none if it does not serve the type."""
    try:
        async for page in place.client.metadata(place.name, kind):
            for one in page:
                if one.has_finalizer(place.finalizer):
                    yield HeldObject(place, kind, one)
    except NotFound:
        return
