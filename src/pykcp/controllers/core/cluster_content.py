"""Remaining content of a terminating logical cluster, its finalizers, and the condition messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pykcp.apis.kcp.logical_clusters import WORKSPACE_FINALIZER
from pykcp.apis.kcp_catalog import is_exported
from pykcp.machinery.resources import WORKSPACES
from pykcp.registry.cluster_content import ContentItem
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.transaction import Delete

RBAC = "rbac.authorization.k8s.io"
CRDS = "customresourcedefinitions"
_OWN_FINALIZERS = frozenset(
    ("apis.kcp.io/apibinding-finalizer", "customresourcecleanup.apiextensions.k8s.io")
)
"""Finalizers of controllers whose clean-up is part of this deletion."""
_MOST_FINALIZERS = 100
"""Finalizers that are named, of one object and in all."""


def is_kept(item: ContentItem) -> bool:
    """Whether it has finalizers of other controllers."""
    return any(f not in _OWN_FINALIZERS for f in item.metadata.finalizers or ())


def is_workspace(item: ContentItem) -> bool:
    """Whether it is a workspace whose only finalizer is that of its logical cluster."""
    is_one = (item.resource.group, item.resource.plural) == WORKSPACES[::2]
    return is_one and item.metadata.finalizers == (WORKSPACE_FINALIZER,)


def deletion(cluster: str, item: ContentItem) -> Delete:
    metadata = item.metadata
    return Delete(item.resource, cluster, metadata.namespace, metadata.name, item.entry)


def chunk_size(items: Sequence[ContentItem], most: int) -> int:
    """How many of the first items one transaction deletes: a long one holds up all others."""
    size = 0
    for count, item in enumerate(items[:most]):
        size += item.size
        if count and size > _CHUNK_BYTES:
            return count
    return min(len(items), most)


_CHUNK_BYTES = 8 << 20


def in_deletion_order(items: list[ContentItem]) -> list[ContentItem]:
    """Containers after their content, and roles last."""
    return sorted(items, key=lambda item: (is_role(item), _is_holder(item)))


def _is_holder(item: ContentItem) -> bool:
    """Whether it has content that a controller would delete: of a namespace, binding or CRD."""
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
