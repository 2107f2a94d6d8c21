"""Which kinds a logical cluster serves, by the names under which controllers meet them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.machinery.resources import GroupVersionResource, split_api_version
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.keys import resource_prefix


class ServedKind(NamedTuple):
    resource: GroupVersionResource
    namespaced: bool
    prefix: str
    """Of its objects' keys."""
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
        self._by_prefix = {
            _prefix(d): _served(d, d.versions[0]) for d in builtins if _has_objects(d)
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

    def by_prefix(self, cluster: str, prefix: str) -> ServedKind | None:
        """The kind whose objects have this prefix."""
        found = self._by_prefix.get(prefix)
        if found is not None:
            return found
        for definition in self._directory.definitions(cluster):
            if not definition.versions:
                continue
            if _has_objects(definition) and _prefix(definition) == prefix:
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


def _prefix(definition: ResourceDefinition) -> str:
    return resource_prefix(*definition.storage, definition.identity)


def _served(definition: ResourceDefinition, version: str) -> ServedKind:
    resource = GroupVersionResource(definition.group, version, definition.plural)
    return ServedKind(resource, definition.namespaced, _prefix(definition), definition.kind)
