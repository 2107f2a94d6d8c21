"""Shards, and the workspaces on them, as the server lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from pykcp.apis.kcp.logical_clusters import (
    PATH_ANNOTATION,
    SHARD_ANNOTATION,
    UNSCHEDULABLE_ANNOTATION,
)
from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, limit_of
from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.concurrently import for_each
from pykcp.cli.plugins.shards.plan import PlacedWorkspace, ShardRow
from pykcp.cli.plugins.workspace.resources import Collection, is_mount, is_terminating, workspaces
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT, is_system, join

Object = dict[str, Any]
_EVERYWHERE = "/services/merged/readable/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"
_NOT_EVERYWHERE = (403, 404, 503)
"""Without a front-proxy, or while a shard is away."""
_PAGE = 500


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
    """All workspaces that can be moved: of every tree, home workspaces too."""
    try:
        return [
            _placed_cluster(one) for one in _logical_clusters(client) if not meta.is_deleting(one)
        ]
    except ServerError as error:
        if error.code not in _NOT_EVERYWHERE:
            raise
    return _below_root(client)


def list_remaining(client: RestClient, shard: str) -> list[PlacedWorkspace]:
    """The workspaces that a shard still has, those that are being deleted included."""
    found = [_placed_cluster(one) for one in _logical_clusters(client)]
    return [one for one in found if one.shard == shard]


def _logical_clusters(client: RestClient) -> Iterator[Object]:
    """Those of all shards, without the ones that belong to their shard."""
    token = ""
    while True:
        page = client.get(f"{_EVERYWHERE}?{urlencode({'limit': _PAGE, 'continue': token})}")
        for item in page.get("items") or ():
            name = meta.cluster(item)
            if name and name != ROOT and not is_system(name):
                yield item
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return


def _placed_cluster(logical_cluster: Object) -> PlacedWorkspace:
    annotations, name = meta.annotations(logical_cluster), meta.cluster(logical_cluster)
    path = annotations.get(PATH_ANNOTATION) or name
    return PlacedWorkspace(path, name, annotations.get(SHARD_ANNOTATION, ""))


def _below_root(client: RestClient) -> list[PlacedWorkspace]:
    """What a user can see who does not reach all shards: the tree of `root`, level by level."""
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
