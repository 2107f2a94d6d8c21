"""Limit on the number of logical clusters of a shard: an annotation of its Shard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from pykcp.machinery.kcp.clusters import is_system
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts
from pykcp.registry.verbs.cluster_room import ClusterRoom


class LogicalClusterLimit:
    name = "core.kcp.io/LogicalClusterCountLimit"
    kind = LOGICAL_CLUSTERS

    def __init__(self, room: ClusterRoom) -> None:
        self._room = room

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and not is_system(request.context.cluster)

    async def validate(self, request: AdmissionRequest) -> None:
        if self._room.limit is None:
            return
        if request.context.dry_run:
            await self._room.check()
        else:
            request.reserve(self._reserve)

    def _reserve(self, requests: Sequence[AdmissionRequest]) -> AbstractAsyncContextManager[Counts]:
        return self._room.taken([request.context.cluster for request in requests])
