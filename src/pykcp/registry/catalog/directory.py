"""Which resources a logical cluster serves, and how they are reached.

Built-in kinds are served everywhere and exist once. What a cluster adds of its
own (CRDs, bound schemas) is looked up per cluster, lazily, by the sources given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import exported_definitions
from pykcp.registry.resource import Resource

MakeResource = Callable[[ResourceDefinition, str], Resource]


class ResourceSource(Protocol):
    """Kinds that only some clusters have."""

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str
    ) -> Resource | None: ...

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """A resource as the clusters that have it share it: its metadata."""

    def is_loaded(self, cluster: str) -> bool:
        """Whether `definitions` answers at once."""

    async def load(self, cluster: str) -> None:
        """Make `definitions` ready in slices."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]: ...


class Directory:
    def __init__(
        self,
        builtins: Sequence[ResourceDefinition],
        make: MakeResource,
        sources: Sequence[ResourceSource] = (),
    ) -> None:
        self._builtins = tuple(builtins)
        self._make = make
        self._sources = tuple(sources)
        self._known = {(d.group, version, d.plural): d for d in builtins for version in d.versions}
        self._made: dict[tuple[str, str, str], Resource] = {}
        self._made_hidden: dict[tuple[str, str, str], Resource] = {}

        self._hidden = {
            (d.group, version, d.plural): d
            for d in exported_definitions()
            for version in d.versions
        }
        """Kinds of kcp that a cluster has only if it binds them; the system has them anyway."""

    def add_source(self, source: ResourceSource) -> None:
        self._sources = (*self._sources, source)

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str = ""
    ) -> Resource | None:
        key = (group, version, plural)
        resource = self._made.get(key)
        if resource is not None:
            return resource
        definition = self._known.get(key)
        if definition is not None:
            resource = self._made[key] = self._make(definition, version)
            return resource
        for source in self._sources:
            resource = source.find(cluster, group, version, plural, identity)
            if resource is not None:
                return resource
        return None

    def find_system(self, group: str, version: str, plural: str) -> Resource | None:
        """A kind of Kubernetes or kcp, whether or not the cluster in question serves it."""
        key = (group, version, plural)
        resource = self._made.get(key) or self._made_hidden.get(key)
        if resource is not None:
            return resource
        definition = self._known.get(key)
        if definition is not None:
            resource = self._made[key] = self._make(definition, version)
            return resource
        definition = self._hidden.get(key)
        if definition is None:
            return None
        resource = self._made_hidden[key] = self._make(definition, version)
        return resource

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """What some clusters bring, for reads of metadata over all of them."""
        for source in self._sources:
            found = await source.find_partial(group, version, plural)
            if found is not None:
                return found
        return None

    def is_builtin_group(self, cluster: str, group: str) -> bool:
        """Whether some kind of this group is built in rather than defined by a CRD."""
        return any(d.group == group and d.native for d in self.definitions(cluster))

    def builtin(self, group: str, version: str, plural: str) -> Resource:
        """A kind that is always there, for controllers and admission."""
        resource = self.find("", group, version, plural)
        assert resource is not None, f"{plural}.{version}.{group} is not built in"
        return resource

    def is_loaded(self, cluster: str) -> bool:
        """Whether `definitions` answers at once."""
        return all(source.is_loaded(cluster) for source in self._sources)

    async def load(self, cluster: str) -> None:
        """Read the definitions of a cluster in slices: they may be many, and large."""
        for source in self._sources:
            await source.load(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        own: tuple[ResourceDefinition, ...] = ()
        for source in self._sources:
            own += source.definitions(cluster)
        return self._builtins + own if own else self._builtins
