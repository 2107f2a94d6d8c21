"""Authentication configurations of workspace types, read from the objects of the shard."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.apis.kcp.logical_clusters import TYPE_ANNOTATION
from pykcp.apis.kcp.workspace_types import cluster_of
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACE_AUTHENTICATION_CONFIGURATIONS, WORKSPACE_TYPES
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object


class StoredConfigurations:
    """Reads them each time: what is looked up is in memory if it was looked up before."""

    def __init__(self, lookup: ObjectLookup) -> None:
        self._lookup = lookup

    def type_of(self, cluster: str) -> str:
        """The qualified name of a workspace's type; "" if it has none."""
        found = self._lookup.logical_cluster(cluster)
        annotations = (found["metadata"].get("annotations") or {}) if found else {}
        name: str = annotations.get(TYPE_ANNOTATION, "")
        return name

    def configurations(self, type_name: str) -> Sequence[Object]:
        """The configurations that a type references, in order; none if one of them is missing."""
        path, name = clusters.split(type_name)
        found = self._lookup.find(WORKSPACE_TYPES, path, name) if path else None
        if found is None:
            return ()
        named = (found.get("spec") or {}).get("authenticationConfigurations") or ()
        configurations: list[Object] = []
        for each in named:
            configuration = self._lookup.get(
                WORKSPACE_AUTHENTICATION_CONFIGURATIONS, cluster_of(found), each.get("name") or ""
            )
            if configuration is None:
                return ()
            configurations.append(configuration)
        return configurations
