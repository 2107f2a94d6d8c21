"""What a shard publishes in the cache, and what has to be done to a copy there. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykcp.machinery.kcp.clusters import SYSTEM_SHARD, is_system
from pykcp.machinery.kcp.replicate_marks import is_marked
from pykcp.machinery.resources import (
    API_CONVERSIONS,
    API_EXPORT_ENDPOINT_SLICES,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    CLUSTER_CACHED_RESOURCES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTER_MIGRATIONS,
    LOGICAL_CLUSTERS,
    SHARDS,
    WORKLOAD_CLUSTERS,
    WORKSPACE_TYPES,
    GroupVersionResource,
)
from pykcp.types import Object

SHARD_ANNOTATION = "kcp.io/shard"
CLUSTER_ANNOTATION = "kcp.io/cluster"
ORIGINAL_VERSION = "cache.kcp.io/original-resource-version"
ORIGINAL_UID = "cache.kcp.io/original-resource-UID"
_OF_THE_COPY = frozenset((SHARD_ANNOTATION, CLUSTER_ANNOTATION, ORIGINAL_VERSION, ORIGINAL_UID))


def _admission(resource: str) -> GroupVersionResource:
    return GroupVersionResource("admissionregistration.k8s.io", "v1", resource)


WHOLE = (
    API_EXPORTS,
    API_EXPORT_ENDPOINT_SLICES,
    API_RESOURCE_SCHEMAS,
    API_CONVERSIONS,
    _admission("mutatingwebhookconfigurations"),
    _admission("validatingwebhookconfigurations"),
    _admission("validatingadmissionpolicies"),
    _admission("validatingadmissionpolicybindings"),
    _admission("mutatingadmissionpolicies"),
    _admission("mutatingadmissionpolicybindings"),
    CLUSTER_CACHED_RESOURCES,
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    SHARDS,
    WORKSPACE_TYPES,
    LOGICAL_CLUSTER_MIGRATIONS,
)
"""Kinds of which everything is published."""
ROLES = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
"""Kinds of which the marked ones of marked logical clusters are.

Other objects are not needed on other shards: permissions are checked across shards only in
clusters with exports or types, which are the marked ones. So ordinary workspaces publish nothing.
"""
OF_MARKED = (*ROLES, WORKLOAD_CLUSTERS)
"""Kinds that only marked logical clusters publish. Clusters of a workspace with exports serve the
workspaces that bind these, which may be on any shard.
"""
PUBLISHED = (*WHOLE, LOGICAL_CLUSTERS, *OF_MARKED)
DELETION_ANNOTATION = "cache.kcp.io/original-deletion-timestamp"
"""Of copies of Clusters: other shards have to know that one is being deleted before it is gone."""
_WITHHELD = {
    "metadata": frozenset(("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds")),
    "spec": frozenset(("kubeconfig", "kubeconfigSecretRef")),
    "status": frozenset(("lastSyncerHeartbeatTime", "syncer")),
}
"""Fields of Clusters that no other shard gets: credentials, and what changes with every report."""
WITHHOLDING = (WORKLOAD_CLUSTERS,)
"""Kinds of which other shards do not get everything."""


class CopyAction(Enum):
    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class ReplicationPlan(NamedTuple):
    action: CopyAction
    copy: Object | None = None
    """What to write."""


NOTHING = ReplicationPlan(CopyAction.NOTHING)
_DELETE = ReplicationPlan(CopyAction.DELETE)


def is_published_place(kind: GroupVersionResource, cluster: str) -> bool:
    """Whether objects of a kind in a logical cluster can be ones to publish.

    In `system:shard` a shard says of itself where it is and how it is, which all others need.
    """
    return not is_system(cluster) or (kind == SHARDS and cluster == SYSTEM_SHARD)


def belongs(kind: GroupVersionResource, cluster: str, local: Object, *, in_marked: bool) -> bool:
    """Whether an object is one to publish; `in_marked`: its logical cluster is marked."""
    if not is_published_place(kind, cluster):
        return False
    if kind in OF_MARKED:
        return in_marked and (kind not in ROLES or is_marked(local))
    return kind != LOGICAL_CLUSTERS or is_marked(local)


def public_form(kind: GroupVersionResource, local: Object) -> Object:
    """What other shards may know of an object."""
    if kind not in WITHHOLDING:
        return local
    made = {
        part: {name: one for name, one in value.items() if name not in _WITHHELD[part]}
        if part in _WITHHELD
        else value
        for part, value in local.items()
    }
    since = local["metadata"].get("deletionTimestamp")
    if since:
        notes = {**(made["metadata"].get("annotations") or {}), DELETION_ANNOTATION: since}
        made["metadata"]["annotations"] = notes
    return made


def plan(local: Object | None, cached: Object | None, shard: str) -> ReplicationPlan:
    """`local` is None, too, if it is not to be published. Both are decoded, or both in outline."""
    if local is None or local["metadata"].get("deletionTimestamp"):
        if cached is None or (local is not None and local["metadata"].get("finalizers")):
            return NOTHING  # what is being deleted stays known until it is gone
        return _DELETE
    if cached is None:
        return ReplicationPlan(CopyAction.CREATE, copy_of(local, shard))
    if cached["metadata"].get("uid") != local["metadata"].get("uid"):
        return _DELETE  # another object of that name; the new one comes when this is gone
    if is_same_content(cached, local):
        return NOTHING
    copy = copy_of(local, shard)
    copy["metadata"]["resourceVersion"] = cached["metadata"]["resourceVersion"]
    return ReplicationPlan(CopyAction.UPDATE, copy)


def copy_of(local: Object, shard: str) -> Object:
    """The object as the cache keeps it."""
    metadata = {**local["metadata"]}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(CLUSTER_ANNOTATION, None)
    annotations[SHARD_ANNOTATION] = shard
    annotations[ORIGINAL_VERSION] = metadata.pop("resourceVersion", "")
    annotations[ORIGINAL_UID] = metadata.get("uid", "")
    metadata["annotations"] = annotations
    return {**local, "metadata": metadata}


def is_same_content(cached: Object, local: Object) -> bool:
    """Whether a copy says what the object says; of two in outline: whether their texts are the same."""
    return _content(cached) == _content(local)


def _content(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    annotations = metadata.pop("annotations", None) or {}
    kept = {k: v for k, v in annotations.items() if k not in _OF_THE_COPY}
    if kept:
        metadata["annotations"] = kept
    body = {k: v for k, v in obj.items() if k not in _TYPE}
    return {**body, "metadata": metadata}


_TYPE = frozenset(("apiVersion", "kind"))
