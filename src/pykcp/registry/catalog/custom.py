"""Custom resources: the resources that the CRDs of a logical cluster define.

A CRD is read from the store by the first request for its resource; its compiled
form is cached by content, so that clusters with the same CRD share it. A cluster
without requests has no cache entries, and events invalidate what changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import orjson

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import BOUND_CRDS
from pykcp.apis.loader import shared_type
from pykcp.caching import BoundedCache
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.crd import (
    SchemaStore,
    definition_from_crd,
    definition_from_text,
    is_kubernetes,
)
from pykcp.machinery.schema.crd_text import CrdText, read_crd
from pykcp.machinery.status import NotFound
from pykcp.registry.codec import decode
from pykcp.registry.keys import (
    WILDCARD,
    all_identities_prefix,
    object_key,
    resource_prefix,
    split_key,
)
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import select
from pykcp.storage.interface import Event, Query, Store
from pykcp.types import Object

_PREFIX = resource_prefix(CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.resource)
_KEEP_CLUSTERS = 1024
_KEEP_DEFINITIONS = 2048

MakeCustom = Callable[[ResourceDefinition, str, int], Resource]
"""Definition, version, and the revision since when it is as it is."""


class ResourceVersions(Mapping[str, Resource]):
    """The versions of a custom resource, each made when it is first asked for."""

    def __init__(
        self,
        names: Sequence[str],
        make: Callable[[str], Resource],
        definition: ResourceDefinition | None = None,
    ) -> None:
        self._names, self._make = dict.fromkeys(names), make
        self.definition = definition
        """Of all versions, for those who need no more than that; None: look at a version."""
        self._made: dict[str, Resource] = {}

    def __getitem__(self, version: str) -> Resource:
        found = self._made.get(version)
        if found is None:
            if version not in self._names:
                raise KeyError(version)
            found = self._made[version] = self._make(version)
        return found

    def __contains__(self, version: object) -> bool:
        return version in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class CustomResources:
    """A source of the directory: the CRDs that each logical cluster holds itself."""

    def __init__(self, store: Store, make: MakeCustom) -> None:
        self._store = store
        self._make = make
        self._resources: BoundedCache[tuple[str, str], ResourceVersions] = BoundedCache(
            "custom-resources", _KEEP_DEFINITIONS
        )
        self._lists: BoundedCache[str, tuple[ResourceDefinition, ...]] = BoundedCache(
            "custom-lists", _KEEP_CLUSTERS
        )
        self._bases: BoundedCache[str, ResourceDefinition] = BoundedCache(
            "custom-definitions", _KEEP_DEFINITIONS
        )
        """Definitions by content, whichever clusters have them."""
        self._schemas = SchemaStore(shared_type)
        self._changes = 0
        store.listen(self._follow, (_PREFIX,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX):
                parts = split_key(event.key)
                self._resources.pop((parts.cluster, parts.name))
                self._lists.pop(parts.cluster)
                self._changes += 1

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str
    ) -> Resource | None:
        if identity or cluster in ("", WILDCARD):
            return None
        name = f"{plural}.{group}" if group else f"{plural}.core"
        by_version = self._resources.get((cluster, name))
        if by_version is None:
            by_version = self._load(cluster, name)
            if by_version is None:
                return None
        return by_version.get(version)

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource of any cluster that has it, with a schema that knows nothing.

        Objects of all versions and identities are shown as they are: only their metadata is
        meant.
        """
        name = f"{plural}.{group or 'core'}"
        conditions = select("", f"metadata.name={name}", None).conditions
        for query in (Query(_PREFIX, where=conditions), Query(f"{_PREFIX}{BOUND_CRDS}/")):
            for value in (await self._store.list(query)).values:
                if b'"%b"' % plural.encode() not in value:
                    continue
                crd = decode(value)
                if _serves(crd, group, version, plural):
                    made = self._make(_metadata_only(crd, version, self._schemas), version, 0)
                    made.all_identities = all_identities_prefix(made.prefix)
                    return made
        return None

    def _load(self, cluster: str, name: str) -> ResourceVersions | None:
        entry = self._store.get(object_key(_PREFIX, cluster, "", name))
        if entry is None:
            return None
        text = read_crd(entry.value)
        if not is_established(text.crd):
            return None
        definition = self._definition(cluster, text)
        made = ResourceVersions(
            definition.versions or _last_version(text.crd),
            lambda version: self._make(definition, version, entry.revision),
        )
        return self._resources.put((cluster, name), made)

    def _definition(self, cluster: str, text: CrdText) -> ResourceDefinition:
        crd = text.crd
        status = crd.get("status") or {}
        content = (
            crd["spec"] if text.is_whole else None,
            status.get("acceptedNames"),
            status.get("storedVersions"),
            crd["metadata"].get("deletionTimestamp"),
            is_kubernetes(crd),
        )
        short = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        fingerprint = hashlib.blake2b(text.spec + short, digest_size=16).hexdigest()
        base = self._bases.get(fingerprint)
        key = object_key(_PREFIX, cluster, "", crd["metadata"]["name"])
        source = stored_source(self._store, key)
        if base is None:
            base = self._bases.put(fingerprint, self._define(text, source, fingerprint))
        # A cluster's own copy only says where it is; schemas, columns and all the rest are shared.
        return replace(base, origin=cluster, source=source)

    def _define(
        self, text: CrdText, source: Callable[[], bytes], fingerprint: str
    ) -> ResourceDefinition:
        definition = as_kubernetes(definition_from_text(text, self._schemas, source))
        definition = replace(definition, fingerprint=fingerprint)
        if text.crd["metadata"].get("deletionTimestamp"):
            verbs = tuple(v for v in definition.verbs if v != "create")
            return replace(definition, verbs=verbs, is_terminating=True)
        return definition

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        """All that the cluster's CRDs define."""
        if cluster in ("", WILDCARD):
            return ()
        known = self._lists.get(cluster)
        if known is None:
            read = (self._read(cluster, key) for key in self._store.keys(f"{_PREFIX}{cluster}/"))
            known = self._remember(cluster, [d for d in read if d is not None])
        return known

    def is_loaded(self, cluster: str) -> bool:
        return cluster in self._lists or cluster in ("", WILDCARD)

    async def load(self, cluster: str) -> None:
        """The same without holding the loop, where there are many definitions or large ones."""
        if cluster in ("", WILDCARD) or cluster in self._lists:
            return
        found, seen, slices = [], self._changes, Slices()
        for key in self._store.keys(f"{_PREFIX}{cluster}/"):
            found.append(self._read(cluster, key))
            if slices.is_over():
                await slices.next()
        if seen == self._changes:
            self._remember(cluster, [d for d in found if d is not None])

    def _remember(
        self, cluster: str, found: Sequence[ResourceDefinition]
    ) -> tuple[ResourceDefinition, ...]:
        return self._lists.put(cluster, tuple(found))

    def _read(self, cluster: str, key: str) -> ResourceDefinition | None:
        entry = self._store.get(key)
        if entry is None:
            return None
        text = read_crd(entry.value)
        return self._definition(cluster, text) if is_established(text.crd) else None


def as_kubernetes(definition: ResourceDefinition) -> ResourceDefinition:
    """With the columns and subresources of Kubernetes' kind, if it is one."""
    if not definition.is_kubernetes:
        return definition
    from pykcp.apis.kube.workloads.definition import completed

    return completed(definition)


def stored_source(store: Store, key: str) -> Callable[[], bytes]:
    """Reads a definition's JSON when a worker process needs it."""

    def read() -> bytes:
        entry = store.get(key)
        if entry is None:
            raise NotFound.path()
        return entry.value

    return read


def _serves(crd: Object, group: str, version: str, plural: str) -> bool:
    spec = crd["spec"]
    return (
        (spec.get("group") or "", spec["names"]["plural"]) == (group, plural)
        and any(v["name"] == version and v.get("served") for v in spec["versions"])
        and is_established(crd)
    )


def _metadata_only(crd: Object, version: str, schemas: SchemaStore) -> ResourceDefinition:
    given = next(v for v in crd["spec"]["versions"] if v["name"] == version)
    bare = {"name": version, "served": True, "storage": True}
    if given.get("deprecated"):
        bare |= {"deprecated": True, "deprecationWarning": given.get("deprecationWarning")}
    spec = {**crd["spec"], "versions": [bare], "conversion": None}
    status = {"acceptedNames": crd["status"].get("acceptedNames")}
    return definition_from_crd({**crd, "spec": spec, "status": status}, schemas)


def _last_version(crd: Object) -> tuple[str, ...]:
    """Where nothing is served, objects must still be deletable when the definition goes."""
    if not crd["metadata"].get("deletionTimestamp"):
        return ()
    return tuple(v["name"] for v in crd["spec"]["versions"] if v.get("storage"))


def is_established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
