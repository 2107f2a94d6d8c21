"""Shards in paths and keys."""

from __future__ import annotations

import pytest

from pykcp.cache.scopes import (
    ScopedPath,
    check_cluster,
    check_shard,
    join,
    split,
    split_path,
    watched_prefixes,
)
from pykcp.machinery.status import BadRequest


@pytest.mark.parametrize(
    ("path", "shard", "rest"),
    [
        ("/services/cache/shards/root/clusters/a/api", "root", "/clusters/a/api"),
        ("/shards/root/clusters/a/api", "root", "/clusters/a/api"),
        ("/services/cache/shards/*/clusters/*/apis", "*", "/clusters/*/apis"),
        ("/services/cache/shards/system:cache:server/x", "system:cache:server", "/x"),
        ("/services/cache/shards/root", "root", ""),
        ("/services/cache/livez", None, "/livez"),
        ("/services/cache", None, ""),
        ("/services/cached/shards/x/y", None, "/services/cached/shards/x/y"),
        ("/api", None, "/api"),
    ],
)
def test_paths(path: str, shard: str | None, rest: str) -> None:
    assert split_path(path) == ScopedPath(shard, rest)


@pytest.mark.parametrize("shard", ["root", "*", "system:cache:server", "a-1"])
def test_shards(shard: str) -> None:
    assert check_shard(ScopedPath(shard, "/x")) == shard


@pytest.mark.parametrize("shard", [None, "", "Root", "a_b", "a" * 62, "a|b", "é"])
def test_no_shards(shard: str | None) -> None:
    with pytest.raises(BadRequest):
        check_shard(ScopedPath(shard, "/x"))


@pytest.mark.parametrize("cluster", ["a:b", "A", "", "a|b", "system:A"])
def test_no_clusters(cluster: str) -> None:
    with pytest.raises(BadRequest):
        check_cluster(cluster)


def test_places() -> None:
    assert join("root", "system:admin") == "root|system:admin"
    assert split("root|system:admin") == ("root", "system:admin")
    assert join("root", "*") == "root|*"
    assert join("*", "a") == "*"


def test_prefixes() -> None:
    assert watched_prefixes("g/r/one|two/ns/name") == (
        "g/r/",
        "g/r/one|",
        "g/r/one|two/",
        "g/r/one|two/ns/",
        "g/r/one|two/ns/name",
    )
