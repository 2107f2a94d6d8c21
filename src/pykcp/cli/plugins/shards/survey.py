"""Shards, and the workspaces on them, as the server lists them."""

from __future__ import annotations

from typing import Any

from pykcp.apis.kcp.logical_clusters import SHARD_ANNOTATION, UNSCHEDULABLE_ANNOTATION
from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, limit_of
from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.concurrently import for_each
from pykcp.cli.plugins.shards.plan import PlacedWorkspace, ShardRow
from pykcp.cli.plugins.workspace.resources import Collection, is_mount, is_terminating, workspaces
from pykcp.machinery.kcp.clusters import ROOT, join

Object = dict[str, Any]


def shard_objects(client: RestClient) -> Collection:
    return Collection(client, ROOT, "core.kcp.io", "v1alpha1", "shards")


def migrations(client: RestClient) -> Collection:
    return Collection(client, ROOT, "migration.kcp.io", "v1alpha1", "logicalclustermigrations")


def move_plans(client: RestClient) -> Collection:
    return Collection(client, ROOT, "moving.pykcp.io", "v1alpha1", "moveplans")


def list_shards(client: RestClient) -> list[ShardRow]:
    return [
        ShardRow(shard["metadata"]["name"], is_cordoned(shard), limit_of(shard, HARD_LIMIT_ANNOTATION))
        for shard in shard_objects(client).list()
    ]  # fmt: skip


def is_cordoned(shard: Object) -> bool:
    return UNSCHEDULABLE_ANNOTATION in (shard["metadata"].get("annotations") or {})


def list_workspaces(client: RestClient) -> list[PlacedWorkspace]:
    """All workspaces below `root` that have a logical cluster, level by level."""
    found: list[PlacedWorkspace] = []
    level = [ROOT]
    while level:
        below: list[PlacedWorkspace] = []

        def look(own: RestClient, path: str, below: list[PlacedWorkspace] = below) -> None:
            for item in workspaces(own, path).list():
                placed = _placed(path, item)
                if placed is not None:
                    below.append(placed)

        for_each(client, level, look)
        found += below
        level = [one.path for one in below]
    return found


def _placed(parent: str, workspace: Object) -> PlacedWorkspace | None:
    cluster = (workspace.get("spec") or {}).get("cluster")
    shard = (workspace["metadata"].get("annotations") or {}).get(SHARD_ANNOTATION)
    if not cluster or not shard or is_mount(workspace) or is_terminating(workspace):
        return None
    return PlacedWorkspace(join(parent, workspace["metadata"]["name"]), cluster, shard)
