"""What the status of APIBindings says, decoded: which schemas a logical cluster has bound.

Only the fields that are needed are decoded: bindings are read for every cluster in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry.keys import kind_prefix
from pykcp.storage.interface import Store
from pykcp.types import Object

BINDINGS = kind_prefix(API_BINDINGS)


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


BoundSet = Mapping[tuple[str, str], BoundResource]
"""By group and plural."""
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


_decode_binding = msgspec.json.Decoder(_Binding).decode


def bound_set(store: Store, cluster: str) -> BoundSet:
    """Everything that the bindings of a logical cluster bring."""
    found: dict[tuple[str, str], BoundResource] = {}
    for key in store.keys(f"{BINDINGS}{cluster}/"):
        entry = store.get(key)
        if entry is not None:
            found.update(decode_binding(entry.value))
    return found or NOTHING


def decode_binding(value: bytes) -> Iterator[tuple[tuple[str, str], BoundResource]]:
    """The resources that one stored binding brings, by group and plural."""
    binding = _decode_binding(value)
    for bound in binding.status.bound_resources:
        yield (
            (bound.group, bound.resource),
            BoundResource(
                bound.schema.UID,
                bound.schema.identity_hash,
                binding.metadata.name,
                binding.status.api_export_cluster_name,
                binding.spec.reference.export.name,
                bool(binding.metadata.deletion_timestamp),
                bool(bound.storage_versions),
            ),
        )
