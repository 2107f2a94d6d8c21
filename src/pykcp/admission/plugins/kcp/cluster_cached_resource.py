"""ClusterCachedResources: one for each resource of a workspace, and only for cluster-wide ones."""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.machinery.resources import CLUSTER_CACHED_RESOURCES
from pykcp.machinery.status import go_quote, invalid, qualified
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class ClusterCachedResourceRules:
    name = "apis.kcp.io/ClusterCachedResource"
    kind = CLUSTER_CACHED_RESOURCES

    def __init__(self, lookup: ObjectLookup, directory: Directory) -> None:
        """By callables: both are made after admission."""
        self._lookup, self._directory = lookup, directory

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        cluster, (group, version, plural) = request.context.cluster, _resource_of(request.obj)
        found = self._directory.find(cluster, group, version, plural)
        if found is not None and found.namespaced:
            why = "Resource referenced in ClusterCachedResource must be cluster-scoped"
            raise refusal(request, invalid("spec", qualified(group, plural), why).text())
        for other in self._lookup.all(CLUSTER_CACHED_RESOURCES, cluster):
            if other["metadata"]["name"] == request.name:
                continue  # the store will say that it exists
            if _resource_of(other) == (group, version, plural):
                why = (
                    "ClusterCachedResource with this GVR already exists in the "
                    f"{go_quote(cluster)} workspace"
                )
                shown = f"{group}.{version}.{plural}"
                raise refusal(request, invalid("spec", shown, why).text())


def _resource_of(obj: Object) -> tuple[str, str, str]:
    spec = obj.get("spec") or {}
    return spec.get("group") or "", spec.get("version") or "", spec.get("resource") or ""
