"""Which kinds a logical cluster serves, by the names under which controllers meet them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import GroupVersionResource, split_api_version
from pykcp.registry.catalog.directory import Directory


class ServedKind(NamedTuple):
    resource: GroupVersionResource
    namespaced: bool
    stored: str
    """The `resource_id` of what its objects are stored as."""
    kind: str

    @property
    def api_version(self) -> str:
        group, version, _ = self.resource
        return f"{group}/{version}" if group else version


class ServedKinds:
    """Built-in kinds are looked up in tables; what a cluster has of its own is searched for."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        builtins = directory.definitions("")
        self._by_kind = {
            (d.group, version, d.kind): _served(d, version)
            for d in builtins
            for version in d.versions
        }
        self._by_stored = {
            stored_as(d): _served(d, d.versions[0]) for d in builtins if _has_objects(d)
        }

    def by_kind(self, cluster: str, api_version: str, kind: str) -> ServedKind | None:
        """What an owner reference means by its apiVersion and kind."""
        group, version = split_api_version(api_version)
        found = self._by_kind.get((group, version, kind))
        if found is not None:
            return found
        for definition in self._directory.definitions(cluster):
            if definition.kind == kind and definition.group == group:
                return _served(definition, version) if version in definition.versions else None
        return None

    def by_resource(self, cluster: str, group: str, plural: str) -> ServedKind | None:
        """A kind by its resource, in the version that the cluster prefers."""
        for definition in self._directory.definitions(cluster):
            if definition.plural == plural and definition.group == group and definition.versions:
                return _served(definition, definition.versions[0])
        return None

    def by_stored(self, cluster: str, stored: str) -> ServedKind | None:
        """The kind whose objects are stored so: what an `ObjectRef` names."""
        found = self._by_stored.get(stored)
        if found is not None:
            return found
        plural = stored.partition(":")[0].rpartition("/")[2]
        for definition in self._directory.definitions(cluster):
            if definition.plural != plural or not definition.versions:
                continue  # most kinds, told at the least cost
            if _has_objects(definition) and stored_as(definition) == stored:
                return _served(definition, definition.versions[0])
        return None

    def with_content(self, cluster: str) -> Iterator[ServedKind]:
        """The namespaced kinds whose objects can be deleted, as discovery shows them."""
        for definition in self._directory.definitions(cluster):
            if not definition.versions:
                continue  # a CRD may serve no version at all
            if definition.namespaced and not definition.ephemeral and "delete" in definition.verbs:
                yield _served(definition, definition.versions[0])


def _has_objects(definition: ResourceDefinition) -> bool:
    """A kind that is stored as another has no objects of its own."""
    return definition.stored_as is None and not definition.ephemeral


def stored_as(definition: ResourceDefinition) -> str:
    """The `resource_id` of what the objects of a kind are stored as."""
    return resource_id(*definition.storage, definition.identity)


def _served(definition: ResourceDefinition, version: str) -> ServedKind:
    resource = GroupVersionResource(definition.group, version, definition.plural)
    return ServedKind(resource, definition.namespaced, stored_as(definition), definition.kind)
