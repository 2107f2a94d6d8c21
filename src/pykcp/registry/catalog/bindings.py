"""What the status of APIBindings says, decoded: which schemas a logical cluster has bound.

Only the fields that are needed are decoded: bindings are read for every cluster in use.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from pykcp.aio.owner import spawn_detached
from pykcp.aio.slices import in_slices
from pykcp.caching import BoundedCache
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

BINDINGS = kind_prefix(API_BINDINGS)
_KEEP_CLUSTERS = 16384
_KEEP_LARGE = 1 << 17
"""Bound resources of all large bindings."""
LARGE = 32 * 1024
"""Octets of a binding that takes long to decode."""
_WIDE = 512
"""Bound resources of a binding that are not copied into the set of its cluster."""


class BoundResource(NamedTuple):
    """One resource that a binding brings."""

    schema_uid: str
    identity: str
    binding: str
    export_cluster: str
    export: str
    is_terminating: bool
    """The binding is being deleted: its objects can only be read and removed."""
    is_stored: bool = True
    """Objects of it were stored here; otherwise its export says where they are."""


class VirtualStorage(NamedTuple):
    """Where the objects of a bound resource are, if they are not in this store."""

    bound: BoundResource
    storage: Object
    """The `storage.virtual` of the export's resource."""


BoundKey = tuple[str, str]
"""Group and plural."""
BoundSet = Mapping[BoundKey, BoundResource]
Brought = dict[BoundKey, BoundResource]
"""What one binding brings."""
NOTHING: BoundSet = {}


class _Schema(msgspec.Struct, rename="camel"):
    UID: str = ""
    identity_hash: str = ""


class _Bound(msgspec.Struct, rename="camel"):
    resource: str
    schema: _Schema
    group: str = ""
    storage_versions: tuple[str, ...] | None = None


class _Status(msgspec.Struct, rename="camel"):
    bound_resources: tuple[_Bound, ...] = ()
    api_export_cluster_name: str = ""


class _ExportReference(msgspec.Struct):
    name: str = ""


class _Reference(msgspec.Struct):
    export: _ExportReference = msgspec.field(default_factory=_ExportReference)


class _Spec(msgspec.Struct):
    reference: _Reference = msgspec.field(default_factory=_Reference)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    deletion_timestamp: str | None = None


class _Binding(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _ListingStatus(msgspec.Struct, rename="camel"):
    bound_resources: tuple[msgspec.Raw, ...] = ()
    api_export_cluster_name: str = ""


class _Listing(msgspec.Struct):
    """A binding whose resources are decoded one by one."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _ListingStatus = msgspec.field(default_factory=_ListingStatus)


_decode_binding = msgspec.json.Decoder(_Binding).decode
_decode_listing = msgspec.json.Decoder(_Listing).decode
_decode_bound = msgspec.json.Decoder(_Bound).decode


class BoundSets:
    """What the bindings of logical clusters bring, by cluster.

    Whoever looks for a resource cannot wait, so a large binding is decoded when it is written, in
    the background, and once; those of its cluster that did not change are not decoded again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sets: BoundedCache[str, BoundSet] = BoundedCache("bindings", _KEEP_CLUSTERS)
        self._large: BoundedCache[str, Brought] = BoundedCache(
            "large-bindings", _KEEP_LARGE, cost=lambda brings: 1 + len(brings)
        )
        """By key, as of the last change that was told."""
        self._written: dict[str, None] = {}
        """Large ones that are going to be decoded."""
        self._decoding: asyncio.Task[None] | None = None
        self._readers: Counter[str] = Counter()
        """Of clusters whose bindings are being read in steps."""
        self._changed: Counter[str] = Counter()
        """Changes of these meanwhile."""

    def changed(self, event: Event, cluster: str) -> None:
        """A binding was written or deleted."""
        self._sets.pop(cluster)
        self._large.pop(event.key)
        if cluster in self._readers:
            self._changed[cluster] += 1
        if not event.deleted and len(event.value) > LARGE:
            self._written[event.key] = None
            if self._decoding is None:
                self._decoding = spawn_detached(self._decode_written(), "large bindings")

    def of_cluster(self, cluster: str) -> BoundSet:
        """What the bindings of a cluster bring."""
        known = self._sets.get(cluster)
        if known is None:
            known = self._sets.put(cluster, self._read(cluster))
        return known

    def in_steps(self, cluster: str) -> Steps[BoundSet]:
        """The same, for who can wait: there may be many large ones that were not read yet."""
        known = self._sets.get(cluster)
        if known is not None:
            return known
        self._readers[cluster] += 1
        before = self._changed[cluster]
        try:
            brought = []
            for key in self._store.keys(f"{BINDINGS}{cluster}/"):
                brought.append((yield from self._decoded(key)))
                yield
            made = _merged(brought)
            if self._changed[cluster] == before:
                self._sets.put(cluster, made)
            return made
        finally:
            self._readers[cluster] -= 1
            if not self._readers[cluster]:
                del self._readers[cluster], self._changed[cluster]

    def _read(self, cluster: str) -> BoundSet:
        return _merged(map(self._of_binding, self._store.keys(f"{BINDINGS}{cluster}/")))

    def _of_binding(self, key: str) -> Brought:
        known = self._large.get(key)  # a large one is not even read again
        if known is not None:
            return known
        entry = self._store.get(key)
        brings = dict(decode_binding(entry.value)) if entry is not None else {}
        if entry is not None and len(entry.value) > LARGE:
            self._large.put(key, brings)
        return brings

    def _decoded(self, key: str) -> Steps[Brought]:
        """What a binding brings; kept if it is large and did not change meanwhile."""
        known = self._large.get(key)
        entry = self._store.get(key) if known is None else None
        if known is not None or entry is None:
            return known or {}
        if len(entry.value) <= LARGE:
            return dict(decode_binding(entry.value))
        brings = yield from _decode_in_steps(entry.value)
        now = self._store.get(key)
        if now is not None and now.revision == entry.revision:
            self._large.put(key, brings)
        return brings

    async def _decode_written(self) -> None:
        try:
            while self._written:
                key = next(iter(self._written))
                del self._written[key]
                await in_slices(self._decoded(key), split_key(key).cluster)
        finally:
            self._decoding = None


def decode_binding(value: bytes) -> Iterator[tuple[BoundKey, BoundResource]]:
    """The resources that one stored binding brings, by group and plural."""
    binding = _decode_binding(value)
    for bound in binding.status.bound_resources:
        yield (bound.group, bound.resource), _brought(binding, bound)


def _decode_in_steps(value: bytes) -> Steps[Brought]:
    binding = _decode_listing(value)
    found: Brought = {}
    for text in binding.status.bound_resources:
        yield
        bound = _decode_bound(text)
        found[bound.group, bound.resource] = _brought(binding, bound)
    return found


def _brought(binding: _Binding | _Listing, bound: _Bound) -> BoundResource:
    return BoundResource(
        bound.schema.UID,
        bound.schema.identity_hash,
        binding.metadata.name,
        binding.status.api_export_cluster_name,
        binding.spec.reference.export.name,
        bool(binding.metadata.deletion_timestamp),
        bool(bound.storage_versions),
    )


def _merged(brought: Iterable[Brought]) -> BoundSet:
    found: Brought = {}
    wide: list[Brought] = []
    for brings in brought:
        if len(brings) > _WIDE:
            wide.append(brings)
        else:
            found.update(brings)
    if wide:  # to merge them would take long after every change of one
        return ChainMap(found, *wide)
    return found or NOTHING
