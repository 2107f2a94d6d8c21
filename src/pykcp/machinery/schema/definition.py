"""A resource definition: the description of a kind, independent of its source.

Built-in kinds, kcp's own, CRDs and bound schemas all have one. The registry derives verbs
from it; discovery, OpenAPI, tables and `kubectl explain` use it as well. Definitions are
shared and immutable; schemas and columns are created on first use.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

Cell: TypeAlias = Callable[[Object, datetime], Any]
"""Computes a table cell from an object and the present moment."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the kind's table."""

    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0
    cell: Cell | None = None

    def to_json(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource; group and version only where they differ from the resource's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class _Lazy:
    """A value made on first use; definitions stay immutable to everyone else."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._made: Any = None

    def get(self) -> Any:
        if self._make is not None:
            self._made = self._make()
            self._make = None
        return self._made


@dataclass(frozen=True, slots=True)
class ResourceVersion:
    """One version of a resource, as it is served."""

    name: str
    load_schema: Callable[[], Schema]
    load_columns: Callable[[], tuple[Column, ...]]
    load_list_schema: Callable[[], Schema] | None = None
    subresources: tuple[Subresource, ...] = ()
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    selectable_fields: frozenset[str] = frozenset()
    scale: Object | None = None
    """JSON paths of a custom resource's scale subresource."""
    weight: int = 0
    """How long the schema takes to compile, in octets of an ordinary one; 0 for built-in kinds."""

    @classmethod
    def lazy(
        cls,
        name: str,
        load_schema: Callable[[], Schema],
        load_columns: Callable[[], tuple[Column, ...]],
        **more: Any,
    ) -> ResourceVersion:
        """A version whose schema and columns are made once, on first use."""
        list_schema = more.pop("load_list_schema", None)
        return cls(
            name,
            _Lazy(load_schema).get,
            _Lazy(load_columns).get,
            _Lazy(list_schema).get if list_schema is not None else None,
            **more,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ResourceDefinition:
    """Names, scope, versions and verbs of one resource. Compared by identity: they are shared."""

    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    all_versions: tuple[ResourceVersion, ...]
    """Preferred version first, in the order clients see."""
    verbs: tuple[str, ...]
    storage_version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    native: bool = True
    """Typed in Go upstream: typed decoding, strategic merge, no pruning by schema."""
    strategy: str = ""
    """Name of the kind's hand-written rules; "" for none."""
    stored_as: tuple[str, str] | None = None
    """Group and resource it is stored under, if not its own: events exist in two groups."""
    hash_version: str = ""
    """The storage version of the kind upstream, if it differs; used only for the hash."""
    origin: str = ""
    """Logical cluster that the definition comes from; "" for built-in ones."""
    is_terminating: bool = False
    """A custom kind whose definition or binding is being deleted: nothing new is created."""
    ephemeral: bool = False
    """Never stored: reviews, which are answered and forgotten."""
    returns_deleted: bool = False
    """Documented to answer a delete with the object rather than with a Status."""
    identity: str = ""
    """Identity hash of the export that it is bound from."""
    stored_versions: tuple[str, ...] = ()
    """Versions that objects of a custom kind may be stored in, oldest first."""
    webhook: Object | None = None
    """A custom kind's `spec.conversion`, if that is by webhook."""
    fingerprint: str = ""
    """Equal for definitions that publish the same, wherever they are; "" for built-in ones."""
    source: Callable[[], bytes] | None = None
    """Reads the JSON that a custom kind is defined by; None if that is not stored."""
    is_kubernetes: bool = False
    """One of Kubernetes' kinds that a schema defines: it has their columns, rules, subresources."""
    is_virtual: bool = False
    """Its objects are not stored here: requests go to the virtual workspace that has them."""
    shared: Callable[[str], Schema] | None = None
    """Finds the types that all kinds share (Status, DeleteOptions, …) by component name."""

    @property
    def versions(self) -> tuple[str, ...]:
        """Names of the served versions, preferred first."""
        return tuple(v.name for v in self.all_versions if v.served)

    @property
    def name(self) -> str:
        """`configmaps`, or `roles.rbac.authorization.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> tuple[str, str]:
        """Group and resource that objects are stored under."""
        return self.stored_as or (self.group, self.plural)

    def version(self, name: str) -> ResourceVersion:
        for candidate in self.all_versions:
            if candidate.name == name:
                return candidate
        raise KeyError(f"{self.name} has no version {name!r}")

    def schema(self, version: str) -> Schema:
        return self.version(version).load_schema()

    def list_schema(self, version: str) -> Schema | None:
        load = self.version(version).load_list_schema
        return load() if load is not None else None

    def columns(self, version: str) -> tuple[Column, ...]:
        return self.version(version).load_columns()

    def subresources_of(self, version: str) -> tuple[Subresource, ...]:
        return self.version(version).subresources

    @property
    def subresources(self) -> tuple[Subresource, ...]:
        """Those of the preferred version; only CRDs can differ between versions."""
        return self.all_versions[0].subresources

    @property
    def selectable_fields(self) -> frozenset[str]:
        """Fields beside metadata.name and metadata.namespace that selectors may name."""
        return self.all_versions[0].selectable_fields

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    @property
    def storage_version_hash(self) -> str:
        """Opaque to clients; computed as kcp does, over cluster, group, version and kind."""
        if self.ephemeral:
            return ""
        version = self.hash_version or self.storage_version
        group = self.api_version(version) if self.origin else self.storage[0]
        return _short_hash(f"{self.origin}/{group}/{version}/{self.kind}")

    @property
    def kubernetes_storage_version_hash(self) -> str:
        """The same as kube-apiserver computes it."""
        if self.ephemeral:
            return ""
        version = self.hash_version or self.storage_version
        return _short_hash(f"{self.storage[0]}/{version}/{self.kind}")


def _short_hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
