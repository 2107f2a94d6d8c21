"""Kinds that had another name: CachedResource and its endpoint slice still answer to it.

They are the same objects as those of the newer name. Controllers do not see them twice: only
requests, discovery and OpenAPI know the older names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import AGE, SYSTEM_CRDS, custom
from pykcp.machinery.resources import (
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    CLUSTER_CACHED_RESOURCES,
    GroupVersionResource,
)
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.resource import Conversion, Resource
from pykcp.types import Object

_GROUP = CLUSTER_CACHED_RESOURCES.group
_OLD, _NEW = "cachedResource", "clusterCachedResource"


@cache
def old_definitions() -> tuple[ResourceDefinition, ...]:
    resource = (("Resource", "string", ".spec.resource"), AGE)
    published = ("CachedResource", "string", f".spec.{_OLD}.name")
    return (
        _renamed("CachedResource", "cachedresources", resource, CLUSTER_CACHED_RESOURCES),
        _renamed(
            "CachedResourceEndpointSlice",
            "cachedresourceendpointslices",
            (published, AGE),
            CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
        ),
    )


def _renamed(
    kind: str, plural: str, columns: tuple[tuple[str, str, str], ...], new: GroupVersionResource
) -> ResourceDefinition:
    old = custom(_GROUP, kind, plural, {new.version: columns}, origin=SYSTEM_CRDS, categories=())
    strategy = f"{new.resource}.{new.group}"
    return replace(old, stored_as=(new.group, new.resource), strategy=strategy)


def slice_to_storage(obj: Object) -> Object:
    spec = {**(obj.get("spec") or {})}
    if _OLD in spec:
        spec[_NEW] = spec.pop(_OLD)
    spec.setdefault("export", {"name": obj["metadata"].get("name", "")})
    return {**obj, "spec": spec}


def slice_from_storage(obj: Object) -> Object:
    spec = {**(obj.get("spec") or {})}
    if _NEW in spec:
        spec[_OLD] = spec.pop(_NEW)
    return {**obj, "spec": spec}


_SLICES = Conversion(to_storage=slice_to_storage, from_storage=slice_from_storage)

Make = Callable[[ResourceDefinition, str, Conversion | None], Resource]


class OldNames:
    """A source of the directory; what it has is found, not listed."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._made: dict[tuple[str, str], Resource] = {}

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str
    ) -> Resource | None:
        if group != _GROUP or identity:
            return None
        for definition in old_definitions():
            if plural == definition.plural and version in definition.versions:
                found = self._made.get((plural, version))
                if found is None:
                    is_slice = definition.kind.endswith("Slice")
                    found = self._make(definition, version, _SLICES if is_slice else None)
                    self._made[plural, version] = found
                return found
        return None

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        return None

    def is_loaded(self, cluster: str) -> bool:
        return True

    async def load(self, cluster: str) -> None:
        """Nothing: there is none of its own."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return ()


class WithOldNames:
    """A directory as clients see it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.find = directory.find
        self.find_partial = directory.find_partial
        self.is_builtin_group = directory.is_builtin_group
        self.is_loaded = directory.is_loaded
        self.load = directory.load

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._directory.definitions(cluster) + old_definitions()
