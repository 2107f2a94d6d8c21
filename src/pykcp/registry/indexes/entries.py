"""Index entries of all objects: owners, deletion, expiry.

`owner:<cluster>:<uid>` finds the dependents of an object (garbage collection),
`deleting` everything that waits for its finalizers, `event:<minute>` and
`event:<day>` the events that were last written then. An ordinary object has none
of them and costs nothing.

Some of kcp's kinds have entries of their own: `unsettled:<kind>` finds what a controller
has not finished; for those between workspaces see `api_indexes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pykcp.apis.kcp.logical_clusters import INACTIVE, PATH_ANNOTATION, READY, phase_of
from pykcp.machinery.kcp.replicate_marks import is_marked
from pykcp.registry.indexes import apis as api_indexes
from pykcp.registry.indexes import cache as cache_indexes
from pykcp.types import Object

DELETING = "deleting"
UNSETTLED_WORKSPACES = "unsettled:workspaces"
MOUNTS = "mounts"
"""Mounted workspaces."""
PROTECTED_WORKSPACES = "protected:workspaces"
"""Workspaces that are not to be deleted."""
PROTECTION = "tenancy.pykcp.io/deletion-protection"
UNSETTLED_CLUSTERS = "unsettled:logicalclusters"
PUBLISHED_CLUSTERS = "published:logicalclusters"
"""Logical clusters that other shards must know."""


def owner_entry(cluster: str, uid: str) -> str:
    return f"owner:{cluster}:{uid}"


def event_entry(moment: str) -> str:
    """`moment` is a day or a minute: as much of a timestamp as says it."""
    return f"event:{moment}"


def event_written(stored: Object) -> str:
    """When an event was last written: the newest time that the server itself put into it."""
    metadata = stored["metadata"]
    times = [entry.get("time") or "" for entry in metadata.get("managedFields") or ()]
    written: str = max(times, default="")
    return max(written, metadata.get("creationTimestamp") or "")


def path_entry(path: str) -> str:
    """The LogicalCluster with this canonical path."""
    return f"path:{path}"


def mount_entry(cluster: str, namespace: str, name: str) -> str:
    """The workspaces that stand for an object of their own workspace, by where it is."""
    return f"mount:{cluster}:{namespace}/{name}"


def is_protected(workspace: Object) -> bool:
    """Whether a workspace says that it is not to be deleted."""
    return (workspace["metadata"].get("annotations") or {}).get(PROTECTION) == "true"


def _workspace(cluster: str, stored: Object) -> Iterable[str]:
    if phase_of(stored) != READY:
        yield UNSETTLED_WORKSPACES
    if is_protected(stored):
        yield PROTECTED_WORKSPACES
    mount = (stored.get("spec") or {}).get("mount")
    if mount:
        target = mount.get("ref") or {}
        yield MOUNTS
        yield mount_entry(cluster, target.get("namespace") or "", target.get("name") or "")


def _logical_cluster(_cluster: str, stored: Object) -> Iterable[str]:
    if phase_of(stored) not in (READY, INACTIVE):
        yield UNSETTLED_CLUSTERS
    if is_marked(stored):
        yield PUBLISHED_CLUSTERS
    path = (stored["metadata"].get("annotations") or {}).get(PATH_ANNOTATION)
    if path:
        yield path_entry(path)


KindIndex = Callable[[str, Object], Iterable[str]]
OF_KIND: Mapping[str, KindIndex] = {
    "workspaces.tenancy.kcp.io": _workspace,
    "logicalclusters.core.kcp.io": _logical_cluster,
    "clustercachedresourceendpointslices.cache.kcp.io": cache_indexes.slice_entries,
    **{f"{plural}.{group}": entries for (group, plural), entries in api_indexes.BY_KIND.items()},
}
"""By the strategy of a definition, which only built-in ones have."""


def index_entries(cluster: str, stored: Object) -> tuple[str, ...]:
    metadata = stored["metadata"]
    owners = metadata.get("ownerReferences")
    is_event = "involvedObject" in stored
    if not owners and not is_event and "deletionTimestamp" not in metadata:
        return ()
    entries = [owner_entry(cluster, o["uid"]) for o in owners or ()]
    if metadata.get("deletionTimestamp"):
        entries.append(DELETING)
    if is_event:
        written = event_written(stored)
        entries += (event_entry(written[:10]), event_entry(written[:16]))
    return tuple(dict.fromkeys(entries))
