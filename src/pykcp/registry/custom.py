"""Custom resources: what the CRDs of a logical cluster add to what it serves.

A CRD is read from the store when a request first asks for its resource; what it
compiles to is found by content, so that clusters with the same CRD share it.
Nothing exists for a cluster that nobody asks, and events forget what changed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp_catalog import BOUND_CRDS
from pykcp.apis.loader import shared_type
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.machinery.status import NotFound
from pykcp.registry.codec import decode
from pykcp.registry.keys import WILDCARD, object_key, resource_prefix, split_key, spread_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.selection import select
from pykcp.storage.interface import Event, Query, Store
from pykcp.types import Object

_PREFIX = resource_prefix(CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.resource)
_KEEP_CLUSTERS = 1024
_KEEP_DEFINITIONS = 2048

MakeCustom = Callable[[ResourceDefinition, str, int], Resource]
"""Definition, version, and the revision since when it is as it is."""


class CustomResources:
    """A source of the directory: the CRDs that each logical cluster holds itself."""

    def __init__(self, store: Store, make: MakeCustom) -> None:
        self._store = store
        self._make = make
        self._resources: OrderedDict[tuple[str, str], dict[str, Resource]] = OrderedDict()
        self._lists: OrderedDict[str, tuple[ResourceDefinition, ...]] = OrderedDict()
        self._bases: OrderedDict[str, ResourceDefinition] = OrderedDict()
        """Definitions by content, whichever clusters have them."""
        self._schemas = SchemaStore(shared_type)
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX):
                parts = split_key(event.key)
                self._resources.pop((parts.cluster, parts.name), None)
                self._lists.pop(parts.cluster, None)

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
                    made.spread = spread_prefix(made.prefix)
                    return made
        return None

    def _load(self, cluster: str, name: str) -> dict[str, Resource] | None:
        entry = self._store.get(object_key(_PREFIX, cluster, "", name))
        if entry is None:
            return None
        crd = decode(entry.value)
        if not is_established(crd):
            return None
        definition = self._definition(cluster, crd)
        made = {
            version: self._make(definition, version, entry.revision)
            for version in definition.versions or _last_version(crd)
        }
        self._resources[cluster, name] = made
        if len(self._resources) > _KEEP_DEFINITIONS:
            self._resources.popitem(last=False)
        return made

    def _definition(self, cluster: str, crd: Object) -> ResourceDefinition:
        status = crd.get("status") or {}
        content = (
            crd["spec"],
            status.get("acceptedNames"),
            status.get("storedVersions"),
            crd["metadata"].get("deletionTimestamp"),
        )
        text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        fingerprint = hashlib.blake2b(text, digest_size=16).hexdigest()
        base = self._bases.get(fingerprint)
        if base is None:
            base = self._bases[fingerprint] = self._define(crd, fingerprint)
            if len(self._bases) > _KEEP_DEFINITIONS:
                self._bases.popitem(last=False)
        # A cluster's own copy only says where it is; schemas, columns and all the rest are shared.
        key = object_key(_PREFIX, cluster, "", crd["metadata"]["name"])
        return replace(base, origin=cluster, source=stored_source(self._store, key))

    def _define(self, crd: Object, fingerprint: str) -> ResourceDefinition:
        definition = replace(definition_from_crd(crd, self._schemas), fingerprint=fingerprint)
        if crd["metadata"].get("deletionTimestamp"):
            verbs = tuple(v for v in definition.verbs if v != "create")
            return replace(definition, verbs=verbs, is_leaving=True)
        return definition

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        """All that the cluster's CRDs define."""
        if cluster in ("", WILDCARD):
            return ()
        known = self._lists.get(cluster)
        if known is None:
            crds = (decode(value) for value in self._read_all(f"{_PREFIX}{cluster}/"))
            known = tuple(self._definition(cluster, crd) for crd in crds if is_established(crd))
            self._lists[cluster] = known
            if len(self._lists) > _KEEP_CLUSTERS:
                self._lists.popitem(last=False)
        return known

    def _read_all(self, prefix: str) -> Iterator[bytes]:
        for key in self._store.keys(prefix):
            entry = self._store.get(key)
            if entry is not None:
                yield entry.value


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
