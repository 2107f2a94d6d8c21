"""Which resources an export's view has, and which of their objects.

The exported resources with all objects of the export's identity; the claimed ones with the
objects that carry the claim's label; the bindings of the export, whatever was claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pykcp.apis.catalog import definition_of
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.hashes import EXPORT_LABEL, REFLEXIVE_CLAIM_VALUE, export_label_value
from pykcp.machinery.resources import API_BINDINGS, API_RESOURCE_SCHEMAS
from pykcp.machinery.terms import Condition, label_term
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import CLUSTER_ANNOTATION, ObjectLookup
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import Admission
from pykcp.registry.watch.selection import Selection
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
            kept = tuple(verb for verb in self.verbs if verb in base.definition.verbs)
            subresources = _STATUS if "update" in self.verbs else {}
            definition = restricted(base.definition, kept, subresources, origin)
            found = base.viewed(definition=definition, scope=self.scope, admission=admission(base))
            self._shown.put(base, found)
        return found


_KEEP = 64
"""Consumers may be at several schemas of a resource at once, but not at many."""


class ViewKinds(NamedTuple):
    """Where a view's resources come from."""

    lookup: ObjectLookup
    directory: Directory
    bound: BoundResources


class Surface:
    """The resources of one export's view."""

    def __init__(self, export: Object, cluster: str, kinds: ViewKinds) -> None:
        self._export, self._cluster = export, cluster
        self._lookup, self._directory, self._bound = kinds
        self.name: str = export["metadata"]["name"]
        self.identity: str = (export.get("status") or {}).get("identityHash") or ""
        self.schemas: set[tuple[str, str]] = set()
        """Cluster and name of every schema this depends on."""
        self.depends_on_exports = False
        self.offers: dict[GroupResource, Offer] = {}
        if self.identity:
            self._add_exported()
            self._add_claimed()
            self.offers.setdefault(_BINDINGS, self._bindings())

    def _add_exported(self) -> None:
        for resource, schema in self._schemas_of(self._export, self._cluster):
            storage = _virtual_storage(self._export, resource)
            found = self._bound.of_schema(schema, self.identity, storage)
            if found:
                uid = schema["metadata"]["uid"]
                self.offers[resource] = Offer(found, self.identity, schema=uid)

    def _schemas_of(self, export: Object, cluster: str) -> Iterator[tuple[GroupResource, Object]]:
        for entry in (export.get("spec") or {}).get("resources") or ():
            self.schemas.add((cluster, entry["schema"]))
            schema = self._lookup.get(API_RESOURCE_SCHEMAS, cluster, entry["schema"])
            if schema is not None:
                spec = schema["spec"]
                yield (spec.get("group") or "", spec["names"]["plural"]), schema

    def _add_claimed(self) -> None:
        for key in claims.exported(self._export):
            for resource in _twins(key.group, key.resource):
                if resource not in self.offers:
                    offer = self._claimed(key, resource)
                    if offer is not None:
                        self.offers[resource] = offer

    def _claimed(self, key: claims.ClaimKey, resource: GroupResource) -> Offer | None:
        if claims.needs_identity(*resource):
            found, uid = self._of_identity(resource, key.identity)
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

    def _of_identity(self, resource: GroupResource, identity: str) -> tuple[ByVersion, str]:
        """A resource of another export, found by identity; the first one if there are several."""
        self.depends_on_exports = True
        if not identity:
            return {}, ""
        for export in self._lookup.exports_of(identity):
            cluster = export["metadata"]["annotations"][CLUSTER_ANNOTATION]
            for found, schema in self._schemas_of(export, cluster):
                if found == resource:
                    return self._bound.of_schema(schema, identity), schema["metadata"]["uid"]
        return {}, ""


def _virtual_storage(export: Object, resource: GroupResource) -> Object | None:
    """Where the objects of an exported resource are, if not with its consumers."""
    for entry in (export.get("spec") or {}).get("resources") or ():
        if (entry.get("group") or "", entry["name"]) == resource:
            storage: Object | None = (entry.get("storage") or {}).get("virtual")
            return storage
    return None


def _twins(group: str, resource: str) -> tuple[GroupResource, ...]:
    """A claim on events is one on both of their groups."""
    if resource == "events" and group in ("", "events.k8s.io"):
        return ("", "events"), ("events.k8s.io", "events")
    return ((group, resource),)
