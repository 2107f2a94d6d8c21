"""ClusterCachedResourceEndpointSlices: checks the permission to read the published objects.

A slice may reference a ClusterCachedResource of another workspace, whose objects it then exposes
to all consumers of an export. kcp does not check this. Here the writer needs `get` on it.
"""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import (
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    CLUSTER_CACHED_RESOURCES,
)
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class CachedResourceSliceRules:
    name = "cache.kcp.io/ClusterCachedResourceEndpointSlice"
    kind = CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        """By callables: both are made after admission."""
        self._lookup, self._authorizer = lookup, authorizer

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        path, name = _reference(request.obj)
        if not path or (request.old is not None and (path, name) == _reference(request.old)):
            return
        cluster = self._lookup.cluster_of(path)
        if cluster != request.context.cluster and not await self._may_get(request, cluster, name):
            # also for missing ones, so that the error does not disclose which exist
            raise refusal(
                request,
                "no permission to get ClusterCachedResource " + clusters.join(path, name),
            )

    async def _may_get(self, request: AdmissionRequest, cluster: str | None, name: str) -> bool:
        if cluster is None:
            return False
        kind = CLUSTER_CACHED_RESOURCES
        attributes = Attributes(
            request.context.user,
            "get",
            group=kind.group,
            resource=kind.resource,
            name=name,
            version=kind.version,
        )
        return (await self._authorizer.authorize(cluster, attributes)).allowed


def _reference(obj: Object) -> tuple[str, str]:
    """Path and name; the kind's older name has another field for it."""
    spec = obj.get("spec") or {}
    found = spec.get("clusterCachedResource") or spec.get("cachedResource") or {}
    return found.get("path") or "", found.get("name") or ""
