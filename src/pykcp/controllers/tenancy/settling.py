"""Changes of a Workspace while it is placed and deleted. Pure."""

from __future__ import annotations

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.machinery import meta
from pykcp.machinery.kcp import hashes
from pykcp.types import Object


def shard_marks(workspace: Object, shard: Object) -> None:
    """Record the shard of a workspace: annotations and the region."""
    metadata, name = workspace["metadata"], meta.name(shard)
    annotations = metadata.setdefault("annotations", {})
    annotations[lifecycle.SHARD_ANNOTATION] = name
    annotations[lifecycle.SHARD_HASH_ANNOTATION] = hashes.shard_hash(name)
    kept = {k: v for k, v in meta.labels(workspace).items() if k != "region"}
    region = meta.labels(shard).get("region")
    metadata["labels"] = {**kept, "region": region} if region else kept


def reserve(workspace: Object, shard: Object, cluster: str) -> None:
    """The first phase of placing: where the logical cluster will be, before it is made there.

    With the finalizer, the Workspace cannot disappear while the logical cluster is made.
    """
    shard_marks(workspace, shard)
    metadata = workspace["metadata"]
    metadata["annotations"][lifecycle.CLUSTER_ANNOTATION] = cluster
    finalizers = metadata.setdefault("finalizers", [])
    if lifecycle.WORKSPACE_FINALIZER not in finalizers:
        finalizers.append(lifecycle.WORKSPACE_FINALIZER)


def unreserve(workspace: Object) -> None:
    """The shard has refused: another one is chosen."""
    annotations = workspace["metadata"].get("annotations") or {}
    for key in (
        lifecycle.SHARD_ANNOTATION,
        lifecycle.SHARD_HASH_ANNOTATION,
        lifecycle.CLUSTER_ANNOTATION,
    ):
        annotations.pop(key, None)


def let_go(workspace: Object) -> None:
    """The logical cluster is gone: the Workspace may go, too."""
    kept = [f for f in meta.finalizers(workspace) if f != lifecycle.WORKSPACE_FINALIZER]
    workspace["metadata"]["finalizers"] = kept


def external_url(shard: Object) -> str:
    """Where users reach the logical clusters of a shard."""
    spec = shard.get("spec") or {}
    url: str = spec.get("externalURL") or spec.get("baseURL") or ""
    return url
