"""Which resources an export's view has, and which of their objects.

The exported resources with all objects of the export's identity; the claimed ones with the
objects that carry the claim's label; the bindings of the export, whatever was claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import orjson

from pykcp.apis.catalog import ResourceDefinition, definition_of
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.hashes import EXPORT_LABEL, REFLEXIVE_CLAIM_VALUE, export_label_value
from pykcp.machinery.resources import API_BINDINGS, API_RESOURCE_SCHEMAS
from pykcp.machinery.terms import Condition, label_term
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.custom import ResourceVersions
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.offered import OfferedSchemas
from pykcp.registry.catalog.schema_text import SchemaText, schema_text
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import Admission
from pykcp.registry.watch.selection import Selection
from pykcp.steps import Steps
from pykcp.types import Object
from pykcp.virtual.framework import restricted

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list", "watch")
_STATUS = {"status": ("get", "patch", "update")}
_BINDINGS = (API_BINDINGS.group, API_BINDINGS.resource)

GroupResource = tuple[str, str]
ByVersion = Mapping[str, Resource]


@dataclass(slots=True)
class Offer:
    """One resource of a view."""

    resources: ByVersion
    """As all clusters together show it, by version."""
    identity: str = ""
    """Of the export that it comes from; "" for what every cluster has."""
    scope: Selection | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    is_claimed: bool = False
    schema: str = ""
    """The UID of its schema."""
    _shown: BoundedCache[Resource, Resource] = field(
        default_factory=lambda: BoundedCache("", _KEEP)
    )

    @property
    def sign(self) -> tuple[str, str, str]:
        """Watches go on only while this stays the same."""
        return self.identity, self.schema, self.scope.key if self.scope is not None else ""

    def shown(
        self, base: Resource, origin: str, admission: Callable[[Resource], Admission | None]
    ) -> Resource:
        """A resource as the view shows it; made once, and so is the gate in front of its writes."""
        found = self._shown.get(base)
        if found is None:
            definition = self._restricted(base.definition, origin)
            found = base.viewed(definition=definition, scope=self.scope, admission=admission(base))
            self._shown.put(base, found)
        return found

    def definition(self, origin: str) -> ResourceDefinition:
        """For discovery: versions of a kind have one definition, and none is compiled for it."""
        made = self.resources.definition if isinstance(self.resources, ResourceVersions) else None
        if made is None:
            made = next(iter(self.resources.values())).definition
        return self._restricted(made, origin)

    def _restricted(self, definition: ResourceDefinition, origin: str) -> ResourceDefinition:
        kept = tuple(verb for verb in self.verbs if verb in definition.verbs)
        return restricted(definition, kept, _STATUS if "update" in self.verbs else {}, origin)


_KEEP = 64
"""Consumers may be at several schemas of a resource at once, but not at many."""


class ViewKinds(NamedTuple):
    """Where a view's resources come from."""

    lookup: ObjectLookup
    directory: Directory
    bound: BoundResources


class Surface:
    """The resources of one export's view; `fill` must be run before it is used."""

    def __init__(self, export: Object, cluster: str, kinds: ViewKinds) -> None:
        self._export, self._cluster = export, cluster
        self._kinds = kinds
        self._directory, self._bound = kinds.directory, kinds.bound
        self.name: str = export["metadata"]["name"]
        self.identity: str = (export.get("status") or {}).get("identityHash") or ""
        self.schemas: set[tuple[str, str]] = set()
        """Cluster and name of every schema this depends on."""
        self.uids: set[str] = set()
        """Of those that there are: they are the names of bound definitions."""
        self.identities: set[str] = set()
        self.exports: set[tuple[str, str]] = set()
        """The identities that are claimed, and cluster and name of the exports that have them."""
        self.offers: dict[GroupResource, Offer] = {}
        self.named: set[GroupResource] = set()
        """What the export says that it offers, whether or not its schema is there."""
        self.asked = claims.Sides({}, {})
        """Its claims."""

    @property
    def size(self) -> int:
        """What it costs to keep it."""
        return 1 + len(self.offers) + len(self.named) + len(self.schemas) + self.asked.size

    def fill(self) -> Steps[None]:
        """In steps: there may be tens of thousands of resources, claims and schemas."""
        spec = self._export.get("spec") or {}
        given = spec.get("permissionClaims") or ()
        self.asked = yield from claims.sides(given)
        yield from self._add_exported(spec.get("resources") or ())
        if self.identity:
            yield from self._add_claimed(given)
            self.offers.setdefault(_BINDINGS, self._bindings())
        self._export = {}

    def _add_exported(self, entries: Sequence[Object]) -> Steps[None]:
        storages: dict[GroupResource, Object | None] = {}
        for entry in entries:
            resource = entry.get("group") or "", entry["name"]
            self.named.add(resource)
            storages.setdefault(resource, (entry.get("storage") or {}).get("virtual"))
        for entry in entries if self.identity else ():
            yield
            schema = self._schema(self._cluster, entry["schema"])
            if schema is None:
                continue
            resource = schema.group, schema.plural
            found = self._bound.of_schema(schema, self.identity, storages.get(resource))
            if found:
                self.offers[resource] = Offer(found, self.identity, schema=schema.uid)

    def _schema(self, cluster: str, name: str) -> SchemaText | None:
        """A schema on this shard or another one."""
        self.schemas.add((cluster, name))
        found = self._bound.schema(cluster, name)
        replica = self._kinds.lookup.replica
        if found is None and replica is not None:
            far = replica.get(API_RESOURCE_SCHEMAS, cluster, name)
            found = schema_text(partial(orjson.dumps, far)) if far is not None else None
        if found is not None:
            self.uids.add(found.uid)
        return found

    def _add_claimed(self, given: Iterable[Object]) -> Steps[None]:
        offered = OfferedSchemas(self._exports_of)
        for key in dict.fromkeys(map(claims.key_of, given)):
            yield
            for resource in _twins(key.group, key.resource):
                if resource not in self.offers:
                    offer = yield from self._claimed(key, resource, offered)
                    if offer is not None:
                        self.offers[resource] = offer

    def _claimed(
        self, key: claims.ClaimKey, resource: GroupResource, offered: OfferedSchemas
    ) -> Steps[Offer | None]:
        if claims.needs_identity(*resource):
            found, uid = yield from self._of_identity(resource, key.identity, offered)
        else:
            found, uid = self._builtin(resource), ""
        if not found:
            return None
        if resource in claims.NOT_PERSISTED:
            return Offer(found, verbs=("create",), is_claimed=True)
        return Offer(
            found,
            key.identity if claims.needs_identity(*resource) else "",
            self._claim_scope(key, resource),
            is_claimed=True,
            schema=uid,
        )

    def _claim_scope(self, key: claims.ClaimKey, resource: GroupResource) -> Selection:
        label, value = claims.label_of(self._cluster, self.name, key)
        values = (value, REFLEXIVE_CLAIM_VALUE) if resource == _BINDINGS else (value,)
        condition = Condition(tuple(label_term(label, v) for v in values))
        return Selection(f"{label} in ({','.join(values)})", (condition,))

    def _bindings(self) -> Offer:
        """What an export's owner always sees."""
        value = export_label_value(self._cluster, self.name)
        scope = Selection(
            f"{EXPORT_LABEL}={value}", (Condition((label_term(EXPORT_LABEL, value),)),)
        )
        return Offer(self._builtin(_BINDINGS), scope=scope, verbs=READ_VERBS)

    def _builtin(self, resource: GroupResource) -> ByVersion:
        try:
            versions = definition_of(*resource).versions
        except KeyError:
            return {}  # claimed, but there is no such thing
        group, plural = resource
        return {name: self._directory.builtin(group, name, plural) for name in versions}

    def _of_identity(
        self, resource: GroupResource, identity: str, offered: OfferedSchemas
    ) -> Steps[tuple[ByVersion, str]]:
        """A resource of another export, found by identity; the first one if there are several."""
        for cluster, name, _ in (yield from offered.named(identity, *resource)):
            schema = self._schema(cluster, name)
            if schema is not None and (schema.group, schema.plural) == resource:
                return self._bound.of_schema(schema, identity), schema.uid
        return {}, ""

    def _exports_of(self, identity: str) -> Steps[Sequence[Object]]:
        """By name and cluster, wherever they are."""
        self.identities.add(identity)
        found = yield from self._kinds.lookup.exports_of(identity)
        self.exports |= {(meta.cluster(export), meta.name(export)) for export in found}
        return found


def _twins(group: str, resource: str) -> tuple[GroupResource, ...]:
    """A claim on events is one on both of their groups."""
    if resource == "events" and group in ("", "events.k8s.io"):
        return ("", "events"), ("events.k8s.io", "events")
    return ((group, resource),)
