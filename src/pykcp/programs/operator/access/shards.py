"""The Shard objects in root: labels that users want, and their end."""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator.configuration.world import at, name_of
from pykcp.programs.operator.names import GROUP
from pykcp.types import Object

SHARDS = GroupVersionResource("core.kcp.io", "v1alpha1", "shards")
LOGICAL_CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
ROOT = "root"
UNSCHEDULABLE = "experimental.core.kcp.io/unschedulable"
OUR_LABELS = f"{GROUP}/labels"
"""Annotation of a Shard object: names of the labels that the operator has set."""
WE_CLOSED = f"{GROUP}/unschedulable"
"""Annotation of a Shard object: it was the operator that has marked it as unschedulable."""


async def unregister(client: Client, shard: Object) -> None:
    """Delete the object of a shard that is deleted; one that is gone already is fine."""
    await client.delete(ROOT, SHARDS, name_of(shard))


async def mark(client: Client, shard: Object, name: str) -> bool:
    """Labels of the Shard object, and whether workspaces are placed there.

    Returns whether it is closed for new workspaces, by us or by somebody else. A shard may serve
    before it has registered itself. Raises SendFailed then: try again later.
    """
    live = await client.get(ROOT, SHARDS, name)
    if live is None:
        raise SendFailed(f"shard {name} has not registered itself in root yet")
    patch = marks(live["metadata"], at(shard, "labels", {}), at(shard, "unschedulable"))
    if patch:
        live = await client.patch(ROOT, SHARDS, name, {"metadata": patch})
    return UNSCHEDULABLE in (live["metadata"].get("annotations") or {})


def marks(metadata: Object, labels: Mapping[str, str], is_closed: bool | None) -> Object:
    """The patch of a Shard object's metadata; what was set here is noted there, to be withdrawn."""
    annotations, have = metadata.get("annotations") or {}, metadata.get("labels") or {}
    noted = {one for one in str(annotations.get(OUR_LABELS) or "").split(",") if one}
    changed: Object = {key: value for key, value in labels.items() if have.get(key) != value}
    ours = (noted & labels.keys()) | changed.keys()
    changed |= {key: None for key in noted - ours if key in have}
    notes: Object = {}
    if ours != noted:
        notes[OUR_LABELS] = ",".join(sorted(ours)) or None
    notes |= _closing(annotations, is_closed)
    patch: Object = {"labels": changed, "annotations": notes}
    return {key: value for key, value in patch.items() if value}


def _closing(annotations: Mapping[str, str], is_closed: bool | None) -> Object:
    """Who closed a shard by hand opens it by hand, unless the object says that it is open."""
    is_marked, is_ours = UNSCHEDULABLE in annotations, WE_CLOSED in annotations
    if is_closed:
        return {} if is_marked else {UNSCHEDULABLE: "true", WE_CLOSED: "true"}
    if is_closed is None and not is_ours:
        return {}
    return {key: None for key in (UNSCHEDULABLE, WE_CLOSED) if key in annotations}


async def remaining_clusters(client: Client) -> list[str]:
    """The logical clusters of users on a shard."""
    found = await client.list("*", LOGICAL_CLUSTERS)
    names = [(one["metadata"].get("annotations") or {}).get("kcp.io/path") or "" for one in found]
    return sorted(name for name in names if name and not name.startswith("system:"))
