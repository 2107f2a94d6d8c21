"""Resources of the cache server that ClusterCachedResources ask for.

Nothing defines them here. A ClusterCachedResource says of which kind and scope its objects are
(annotations that its controller writes) and of which identity, and that is all it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.cache.indexes import cluster_entry, resource_entry
from pykcp.cache.kinds import schemaless
from pykcp.cache.scopes import split
from pykcp.caching import BoundedCache
from pykcp.machinery.discovery import version_priority
from pykcp.registry.codec import decode
from pykcp.registry.keys import is_wildcard, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.types import Object

KIND_ANNOTATION = "cache.kcp.io/resource-kind"
SCOPE_ANNOTATION = "cache.kcp.io/resource-scope"
_PREFIX = resource_prefix("cache.kcp.io", "clustercachedresources")
_KEEP = 256
CORE = "core"
"""How the group without a name is addressed here."""


class RequestedResource(NamedTuple):
    """What ClusterCachedResources of one identity ask for together."""

    group: str
    plural: str
    kind: str
    identity: str
    namespaced: bool
    versions: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """Of the keys of its objects."""
        return resource_prefix(self.group, self.plural, self.identity)

    def definition(self) -> ResourceDefinition:
        return schemaless(
            self.group,
            self.plural,
            self.kind,
            self.versions,
            namespaced=self.namespaced,
            identity=self.identity,
        )


Make = Callable[[ResourceDefinition, str], Resource]


class SynthesizedResources:
    """A source of the cache server's directory."""

    def __init__(self, store: StoreReader, make: Make) -> None:
        self._store = store
        self._make = make
        self._made: BoundedCache[RequestedResource, dict[str, Resource]] = BoundedCache(
            "cached-resources", _KEEP
        )

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str
    ) -> Resource | None:
        group = "" if group == CORE else group
        if not is_wildcard(cluster):
            identity = self._identity_in(split(cluster).cluster, group, plural, identity)
        if not identity:
            return None
        wanted = self._wanted(resource_entry(group, plural, identity))
        return None if wanted is None else self._resources(wanted).get(version)

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """Any of its name: only metadata is asked for."""
        wanted = self._wanted(resource_entry("" if group == CORE else group, plural))
        return None if wanted is None else self._resources(wanted).get(version)

    def is_loaded(self, cluster: str) -> bool:
        return True

    async def load(self, cluster: str) -> None:
        """Nothing to load: definitions are read on demand."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if not cluster or is_wildcard(cluster):
            return ()
        found = []
        for one in self._read(cluster_entry(split(cluster).cluster)):
            spec, identity = one["spec"], (one.get("status") or {}).get("identityHash") or ""
            entry = resource_entry(spec.get("group") or "", spec["resource"], identity)
            wanted = self._wanted(entry) if identity else None
            if wanted is not None:
                found.append(next(iter(self._resources(wanted).values())).definition)
        return tuple(dict.fromkeys(found))

    def _identity_in(self, cluster: str, group: str, plural: str, identity: str) -> str:
        """The identity under which a cluster's objects are cached; "" if they are not."""
        for one in self._read(cluster_entry(cluster)):
            spec = one["spec"]
            if (spec.get("group") or "", spec["resource"]) != (group, plural):
                continue
            found: str = (one.get("status") or {}).get("identityHash") or ""
            if found and identity in ("", found):
                return found
        return ""

    def _wanted(self, entry: str) -> RequestedResource | None:
        return wanted(self._read(entry))

    def _read(self, entry: str) -> Iterator[Object]:
        for key in self._store.lookup(entry):
            found = self._store.get(key) if key.startswith(_PREFIX) else None
            if found is not None:
                yield decode(found.value)

    def _resources(self, wanted: RequestedResource) -> dict[str, Resource]:
        made = self._made.get(wanted)
        if made is None:
            definition = wanted.definition()
            made = {version: self._make(definition, version) for version in wanted.versions}
            self._made.put(wanted, made)
        return made


def requested_resources(store: StoreReader) -> Iterator[RequestedResource]:
    """Everything that ClusterCachedResources ask for, of all shards."""
    by_identity: dict[tuple[str, str, str], list[Object]] = {}
    for key in store.keys(_PREFIX):
        found = store.get(key)
        if found is not None:
            one = decode(found.value)
            spec, identity = one["spec"], (one.get("status") or {}).get("identityHash") or ""
            if identity:
                group, plural = spec.get("group") or "", spec["resource"]
                by_identity.setdefault((group, plural, identity), []).append(one)
    for resources in by_identity.values():
        together = wanted(resources)
        if together is not None:
            yield together


def wanted(resources: Iterable[Object]) -> RequestedResource | None:
    """What ClusterCachedResources of one resource and identity stand for; None if none says."""
    first: Object | None = None
    versions: set[str] = set()
    for one in resources:
        annotations = one["metadata"].get("annotations") or {}
        if not annotations.get(KIND_ANNOTATION) or not annotations.get(SCOPE_ANNOTATION):
            continue
        first = first or one
        versions.add(one["spec"]["version"])
    if first is None:
        return None
    annotations, spec = first["metadata"]["annotations"], first["spec"]
    return RequestedResource(
        spec.get("group") or "",
        spec["resource"],
        annotations[KIND_ANNOTATION],
        (first.get("status") or {}).get("identityHash") or "",
        annotations[SCOPE_ANNOTATION] == "Namespaced",
        tuple(sorted(versions, key=version_priority)),
    )
