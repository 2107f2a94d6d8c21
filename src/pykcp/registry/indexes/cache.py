"""Index entries of slices of cached resources, by the objects that they reference."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.types import Object


def slices_of(path: str, name: str) -> str:
    """Finds slices by their ClusterCachedResource, as they write it."""
    return f"cached-slice-of:{path}:{name}"


def slices_for(path: str, export: str) -> str:
    """Finds slices by their export, as they write it."""
    return f"cached-slice-for:{path}:{export}"


def slices_with_partition(cluster: str, partition: str) -> str:
    return f"cached-slice-partition:{cluster}:{partition}"


def slice_entries(cluster: str, found: Object) -> Iterator[str]:
    spec = found.get("spec") or {}
    resource, export = spec.get("clusterCachedResource") or {}, spec.get("export") or {}
    yield slices_of(resource.get("path") or cluster, resource.get("name") or "")
    yield slices_for(export.get("path") or cluster, export.get("name") or "")
    if spec.get("partition"):
        yield slices_with_partition(cluster, spec["partition"])
