"""The Shard objects in root: labels that users want, and their end."""

from __future__ import annotations

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator.configuration.world import at, name_of
from pykcp.types import Object

SHARDS = GroupVersionResource("core.kcp.io", "v1alpha1", "shards")
LOGICAL_CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
ROOT = "root"
UNSCHEDULABLE = "experimental.core.kcp.io/unschedulable"


async def unregister(client: Client, shard: Object) -> None:
    """Delete the object of a shard that is deleted; one that is gone already is fine."""
    await client.delete(ROOT, SHARDS, name_of(shard))


async def mark(client: Client, shard: Object, name: str) -> None:
    """Labels of the Shard object, and whether workspaces are placed there.

    A shard may serve before it has registered itself. Raises SendFailed then: try again later.
    """
    labels, is_closed = at(shard, "labels", {}), at(shard, "unschedulable")
    live = await client.get(ROOT, SHARDS, name)
    if live is None:
        raise SendFailed(f"shard {name} has not registered itself in root yet")
    annotations = live["metadata"].get("annotations") or {}
    have = live["metadata"].get("labels") or {}
    patch: Object = {}
    if any(have.get(key) != value for key, value in labels.items()):
        patch["labels"] = labels
    if is_closed is not None and is_closed != (UNSCHEDULABLE in annotations):
        patch["annotations"] = {UNSCHEDULABLE: "true" if is_closed else None}
    if patch:
        await client.patch(ROOT, SHARDS, name, {"metadata": patch})


async def remaining_clusters(client: Client) -> list[str]:
    """The logical clusters of users on a shard."""
    found = await client.list("*", LOGICAL_CLUSTERS)
    names = [(one["metadata"].get("annotations") or {}).get("kcp.io/path") or "" for one in found]
    return sorted(name for name in names if name and not name.startswith("system:"))
