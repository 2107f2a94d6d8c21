"""Sets `kcp.io/path` to the canonical path of the object's workspace."""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    CLUSTER_CACHED_RESOURCES,
    LOGICAL_CLUSTERS,
    WORKSPACE_TYPES,
)
from pykcp.machinery.status import NotFound, go_quote
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest

_KINDS = frozenset(
    (kind.group, kind.resource)
    for kind in (API_EXPORTS, CLUSTER_CACHED_RESOURCES, API_BINDINGS, WORKSPACE_TYPES)
)
"""Kinds that always have it; others may."""
_BINDINGS = (API_BINDINGS.group, API_BINDINGS.resource)
_CLUSTERS = (LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)


class PathAnnotation:
    name = "kcp.io/PathAnnotation"
    operations = ("CREATE", "UPDATE")

    def __init__(self, lookup: ObjectLookup) -> None:
        """By a callable: lookups are made after admission."""
        self._lookup = lookup

    def wants(self, request: AdmissionRequest) -> bool:
        kind = request.resource.storage
        if kind in _KINDS:
            return True
        if not request.may_mention(PATH_ANNOTATION):
            return False
        annotations = request.metadata.get("annotations") or {}
        return PATH_ANNOTATION in annotations and kind != _CLUSTERS

    async def mutate(self, request: AdmissionRequest) -> None:
        path = self._path(request)
        metadata = request.metadata
        annotations = metadata.get("annotations") or {}
        if path is not None and annotations.get(PATH_ANNOTATION) != path:
            metadata["annotations"] = {**annotations, PATH_ANNOTATION: path}

    async def validate(self, request: AdmissionRequest) -> None:
        path = self._path(request)
        if path is None or _is_binding(request):
            return
        given = (request.metadata.get("annotations") or {}).get(PATH_ANNOTATION) or ""
        if given != path:
            raise refusal(
                request,
                f"annotation for {request.name}, {go_quote(PATH_ANNOTATION)} must match "
                f"canonical path {go_quote(path)}, but got {go_quote(given)}",
            )

    def _path(self, request: AdmissionRequest) -> str | None:
        """None if the workspace is not there yet: its first bindings may be earlier."""
        lookup, cluster = self._lookup, request.context.cluster
        if lookup.logical_cluster(cluster) is not None:
            return lookup.canonical_path(cluster)
        if _is_binding(request):
            return None
        missing = NotFound.resource(*_CLUSTERS, "cluster")
        raise refusal(request, f"cannot get this workspace: {missing.message}")


def _is_binding(request: AdmissionRequest) -> bool:
    return (request.resource.group, request.resource.plural) == _BINDINGS
