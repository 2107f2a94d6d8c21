"""Index entries of the cache server: how objects are found whichever shard they are of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.registry.indexes import apis, cache
from pykcp.types import Object

_LOGICAL_CLUSTERS = ("core.kcp.io", "logicalclusters")
_EXPORTS = ("apis.kcp.io", "apiexports")
_CACHED_RESOURCES = ("cache.kcp.io", "clustercachedresources")
_ENTRIES: dict[tuple[str, str], Callable[[str, Object], Iterator[str]]] = {
    ("apis.kcp.io", "apiexportendpointslices"): apis.slice_entries,
    ("cache.kcp.io", "clustercachedresourceendpointslices"): cache.slice_entries,
    ("tenancy.kcp.io", "workspacetypes"): apis.type_entries,
}
"""Kinds that are found by the same entries as in their shard."""


_INDEXED_MEMBERS: dict[tuple[str, str], tuple[str, ...]] = {
    _LOGICAL_CLUSTERS: (),
    _EXPORTS: ("status",),
    _CACHED_RESOURCES: ("spec", "status"),
    **dict.fromkeys(_ENTRIES, ("spec",)),
}


def indexed_members(kind: tuple[str, str]) -> tuple[str, ...]:
    """The members of an object, besides its metadata, of which its entries are made."""
    return _INDEXED_MEMBERS.get(kind, ())


def place_entry(prefix: str, cluster: str, namespace: str, name: str) -> str:
    """One object."""
    return f"{prefix}{cluster}/{namespace}/{name}"


def content_entry(prefix: str, cluster: str) -> str:
    """The objects of a kind in a logical cluster."""
    return f"{prefix}{cluster}/"


def path_entry(path: str) -> str:
    """The LogicalCluster with this canonical path."""
    return f"path:{path}"


def identity_entry(identity: str) -> str:
    """The APIExports with this identity."""
    return f"identity:{identity}"


def cluster_entry(cluster: str) -> str:
    """The ClusterCachedResources of a logical cluster."""
    return f"cached-in:{cluster}"


def resource_entry(group: str, plural: str, identity: str = "") -> str:
    """The ClusterCachedResources of a resource, of one identity or of any."""
    return f"cached:{plural}.{group}:{identity}"


def index_entries(
    prefix: str, cluster: str, namespace: str, stored: Object, kind: tuple[str, str]
) -> tuple[str, ...]:
    """The entries of an object; `prefix` is that of its resource, `kind` its group and plural."""
    metadata = stored["metadata"]
    entries = [
        place_entry(prefix, cluster, namespace, metadata["name"]),
        content_entry(prefix, cluster),
    ]
    if kind == _LOGICAL_CLUSTERS:
        path = (metadata.get("annotations") or {}).get(PATH_ANNOTATION)
        if path:
            entries.append(path_entry(path))
    elif kind == _EXPORTS:
        identity = (stored.get("status") or {}).get("identityHash")
        if identity:
            entries.append(identity_entry(identity))
    elif kind == _CACHED_RESOURCES:
        entries += _cached_resource(cluster, stored)
    elif kind in _ENTRIES:
        entries += _ENTRIES[kind](cluster, stored)
    return tuple(entries)


def _cached_resource(cluster: str, stored: Object) -> list[str]:
    spec = stored.get("spec") or {}
    group, plural = spec.get("group") or "", spec.get("resource") or ""
    entries = [cluster_entry(cluster), resource_entry(group, plural)]
    identity = (stored.get("status") or {}).get("identityHash")
    return [*entries, resource_entry(group, plural, identity)] if identity else entries
