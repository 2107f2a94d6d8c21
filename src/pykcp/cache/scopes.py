"""Shards in paths and keys of the cache server. Pure.

`/shards/<shard>/clusters/<cluster>/…`, with or without `/services/cache` in front. Both may be
`*`. The registry knows only clusters, so shard and cluster are joined to one name there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import BadRequest, go_quote
from pykcp.registry.keys import SHARD_END, WILDCARD, enclosing_prefixes

SERVICE = "/services/cache"
_SHARDS = "/shards/"
_SHARD = re.compile(r"[a-z0-9:-]{0,61}")


class ObjectLocation(NamedTuple):
    """Where an object is kept."""

    shard: str
    cluster: str


class ScopedPath(NamedTuple):
    shard: str | None
    """None if the path names none."""
    path: str
    """What follows."""


def split_path(path: str) -> ScopedPath:
    """`/services/cache/shards/root/clusters/a/api` is shard `root` and `/clusters/a/api`."""
    if path == SERVICE or path.startswith(SERVICE + "/"):
        path = path[len(SERVICE) :]
    if not path.startswith(_SHARDS):
        return ScopedPath(None, path)
    shard, slash, rest = path[len(_SHARDS) :].partition("/")
    return ScopedPath(shard, f"/{rest}" if slash else "")


def check_shard(scoped: ScopedPath) -> str:
    """The shard of a request that needs one; BadRequest in kcp's words."""
    if scoped.shard and not scoped.path:
        raise BadRequest(f"unable to parse shard: no `/` found in path {scoped.shard}")
    if not scoped.shard:
        raise BadRequest("a shard name is required")
    if scoped.shard != WILDCARD and _SHARD.fullmatch(scoped.shard) is None:
        raise BadRequest(f"invalid shard: {go_quote(scoped.shard)} does not match the regex")
    return scoped.shard


def check_cluster(cluster: str) -> None:
    """Only names are accepted here; paths are not resolved."""
    if cluster == WILDCARD or clusters.is_valid_name(cluster):
        return
    if not clusters.is_valid_path(cluster):
        raise BadRequest(f"invalid cluster: {go_quote(cluster)} does not match the regex")
    raise BadRequest(f"invalid cluster: {go_quote(cluster)} is not a logical cluster name")


def join(shard: str, cluster: str) -> str:
    """The name that the registry knows a place by."""
    if shard == WILDCARD:
        return WILDCARD
    return f"{shard}{SHARD_END}{cluster}"


def split(joined: str) -> ObjectLocation:
    shard, _, cluster = joined.partition(SHARD_END)
    return ObjectLocation(shard, cluster)


def watched_prefixes(key: str) -> tuple[str, ...]:
    """The prefixes that a watch of a key of the cache server may have."""
    resource, *rest = enclosing_prefixes(key)
    return resource, key[: key.index(SHARD_END) + 1], *rest
