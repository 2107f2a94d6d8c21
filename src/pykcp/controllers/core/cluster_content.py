"""What is in a logical cluster that is being deleted, who keeps it, and how that is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp.logical_clusters import WORKSPACE_FINALIZER
from pykcp.apis.kcp_catalog import is_exported
from pykcp.controllers.runtime.objects import Metadata, metadata_of, pages
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES, GroupVersionResource
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.keys import kind_prefix, resource_prefix
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.transaction import Delete
from pykcp.storage.interface import Entry, Store

RBAC = "rbac.authorization.k8s.io"
CRDS = "customresourcedefinitions"
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_OWN_FINALIZERS = frozenset(
    ("apis.kcp.io/apibinding-finalizer", "customresourcecleanup.apiextensions.k8s.io")
)
"""Theirs who would delete what goes here anyway."""
_FEW = 50
_LARGE = 32 * 1024
"""Octets of an object that is not kept in memory until its turn comes."""
_MOST_FINALIZERS = 100
"""Finalizers that are named, of one object and in all."""


class ContentItem(NamedTuple):
    resource: Resource
    metadata: Metadata
    entry: Entry | None = None
    """As it was read, if there are few."""

    @property
    def is_kept(self) -> bool:
        """Whether somebody else has to let go of it first."""
        finalizers = self.metadata.finalizers or ()
        return any(f not in _OWN_FINALIZERS for f in finalizers)

    @property
    def is_workspace(self) -> bool:
        """Whether it is a workspace that waits for nothing but its logical cluster."""
        is_one = (self.resource.group, self.resource.plural) == WORKSPACES[::2]
        return is_one and self.metadata.finalizers == (WORKSPACE_FINALIZER,)


class RemainingContent:
    def __init__(self, store: Store, client: LocalClient, directory: Directory) -> None:
        self._store, self._client, self._directory = store, client, directory

    async def of(self, cluster: str) -> list[ContentItem]:
        """Everything in the cluster but its LogicalCluster."""
        items: list[ContentItem] = []
        seen, slices = {_CLUSTERS}, Slices(cluster)
        for definition in self._directory.definitions(cluster):
            if definition.ephemeral or definition.stored_as or not definition.all_versions:
                continue
            prefix = resource_prefix(*definition.storage, definition.identity)
            if prefix in seen:
                continue
            seen.add(prefix)
            place = f"{prefix}{cluster}/"
            keys = self._store.keys(place, limit=_FEW + 1)
            if not keys:
                continue
            resource = self._client.resource(cluster, _served(definition))
            if len(keys) > _FEW:
                async for page in pages(self._store, place):
                    items += (ContentItem(resource, metadata) for metadata in page)
                continue
            for key in keys:
                entry = self._store.get(key)
                if entry is None:
                    continue
                is_kept = len(entry.value) <= _LARGE
                items.append(
                    ContentItem(resource, metadata_of(entry.value), entry if is_kept else None)
                )
                if slices.is_over():
                    await slices.next()
        return items


def _served(definition: ResourceDefinition) -> GroupVersionResource:
    versions = definition.versions or tuple(v.name for v in definition.all_versions)
    return GroupVersionResource(definition.group, versions[0], definition.plural)


def deletion(cluster: str, item: ContentItem) -> Delete:
    metadata = item.metadata
    return Delete(item.resource, cluster, metadata.namespace, metadata.name, item.entry)


def in_deletion_order(items: list[ContentItem]) -> list[ContentItem]:
    """What holds others comes after those, and roles come last."""
    return sorted(items, key=lambda item: (is_role(item), _is_holder(item)))


def _is_holder(item: ContentItem) -> bool:
    """Whether somebody tidies up behind it: the content of a namespace, the objects of a kind."""
    return item.resource.plural in ("namespaces", "apibindings", CRDS)


def is_role(item: ContentItem) -> bool:
    return item.resource.group == RBAC


def holders(kept: list[ContentItem]) -> Callable[[ContentItem], bool]:
    """Whether something must stay because something kept depends on it."""
    namespaces = {item.metadata.namespace for item in kept}
    has_custom = any(_is_brought(item.resource) for item in kept)

    def holds(item: ContentItem) -> bool:
        resource = item.resource
        if (resource.group, resource.plural) == ("", "namespaces"):
            return item.metadata.name in namespaces
        return has_custom and resource.plural in ("apibindings", CRDS)

    return holds


def _is_brought(resource: Resource) -> bool:
    """Whether a cluster has a kind only by a definition or a binding of its own."""
    return not resource.definition.strategy or is_exported(resource.group, resource.plural)


def remains_message(kept: list[ContentItem]) -> str:
    """What is left in a cluster, in kcp's words."""
    by_kind: Counter[str] = Counter()
    by_finalizer: Counter[str] = Counter()
    for item in kept:
        by_kind[f"{item.resource.plural}.{item.resource.group}"] += 1
        finalizers = (item.metadata.finalizers or ())[:_MOST_FINALIZERS]
        by_finalizer.update(f for f in finalizers if f not in _OWN_FINALIZERS)
    parts = []
    if by_kind:
        counts = sorted(f"{kind} has {n} resource instances" for kind, n in by_kind.items())
        parts.append(f"Some resources are remaining: {', '.join(counts)}")
    if by_finalizer:
        named = by_finalizer.most_common(_MOST_FINALIZERS)
        counts = sorted(f"{name} in {n} resource instances" for name, n in named)
        parts.append(
            f"Some content in the logical cluster has finalizers remaining: {', '.join(counts)}"
        )
    return "; ".join(parts)
