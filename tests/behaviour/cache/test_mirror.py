"""The mirror of a cache server, without the shards: what is kept of it, and when it is removed."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykcp.aio.owner import TaskOwner
from pykcp.cache import part_marks
from pykcp.cache.completeness import has_all_copies
from pykcp.cache.mirror import CacheMirror
from pykcp.cache.part_marks import PartMark, mark_object
from pykcp.cache.remote import connect_cache
from pykcp.cache.scopes import join, split
from pykcp.cache.server import Cache, make_cache
from pykcp.controllers.cache import copy_marks
from pykcp.registry.keys import split_key
from pykcp.storage.memory import MemoryStore
from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.caches import CacheProcess, cache_server
from pykcp.types import Object

EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
REQUESTS = "/apis/cache.kcp.io/v1alpha1/clustercachedresources"
MARKS = "/apis/cache.kcp.io/v1alpha1/cachedobjects"
IDENTITY = "f00"
INSTANCES = f"machines.io/instances:{IDENTITY}/"


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[CacheProcess]:
    with cache_server(tmp_path / "server") as process:
        yield process


@asynccontextmanager
async def mirrored(server: CacheProcess, cache: Cache) -> AsyncIterator[CacheMirror]:
    mirror = CacheMirror(connect_cache(str(server.kubeconfig), "test"), cache, "own")
    async with TaskOwner("test") as owner:
        owner.start_restartable("mirror", mirror.run)
        yield mirror


def path(shard: str, cluster: str, rest: str) -> str:
    return f"/services/cache/shards/{shard}/clusters/{cluster}{rest}"


def write(server: CacheProcess, shard: str, kind: str, obj: Object, cluster: str = "acme") -> None:
    status, answer = server.request(path(shard, cluster, kind), "POST", obj)
    assert status == 201, answer


def export(name: str) -> Object:
    return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}}


def mark(server: CacheProcess, shard: str, state: PartMark) -> None:
    """Write or replace the mark of a shard's part."""
    place = path(shard, part_marks.CLUSTER, MARKS)
    status, answer = server.request(f"{place}/{part_marks.NAME}")
    obj = mark_object(state)
    if status == 404:
        write(server, shard, MARKS, obj, part_marks.CLUSTER)
        return
    obj["metadata"]["resourceVersion"] = json.loads(answer)["metadata"]["resourceVersion"]
    status, answer = server.request(f"{place}/{part_marks.NAME}", "PUT", obj)
    assert status == 200, answer


def exports(cache: Cache) -> set[tuple[str, str]]:
    """Shard and name of the mirrored exports."""
    found = map(split_key, cache.store.keys("apis.kcp.io/apiexports/"))
    return {(split(parts.cluster).shard, parts.name) for parts in found}


async def until(check: Callable[[], Any], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 — what is waited for has no event
            await asyncio.sleep(0.01)


async def test_changes_arrive(server: CacheProcess) -> None:
    cache = make_cache(MemoryStore())
    write(server, "alpha", EXPORTS, export("before"))
    async with mirrored(server, cache):
        await until(lambda: exports(cache) == {("alpha", "before")})
        write(server, "beta", EXPORTS, export("after"))
        await until(lambda: exports(cache) == {("alpha", "before"), ("beta", "after")})
        server.request(path("alpha", "acme", f"{EXPORTS}/before"), "DELETE")
        await until(lambda: exports(cache) == {("beta", "after")})


async def test_what_did_not_change_is_not_written(server: CacheProcess) -> None:
    cache = make_cache(MemoryStore())
    write(server, "alpha", EXPORTS, export("one"))
    async with mirrored(server, cache):
        await until(lambda: exports(cache))
    revision = cache.store.revision
    async with mirrored(server, cache):
        write(server, "alpha", EXPORTS, export("two"))
        await until(lambda: len(exports(cache)) == 2)
    assert cache.store.revision == revision + 1


async def test_deletions_that_were_missed(server: CacheProcess) -> None:
    """Of shards without marks, at once; of others, if their part is complete."""
    cache = make_cache(MemoryStore())
    for shard in ("plain", "marked", "begun"):
        write(server, shard, EXPORTS, export("one"))
    mark(server, "marked", PartMark(1, 1, is_complete=True))
    mark(server, "begun", PartMark(1, 1, is_complete=True))
    async with mirrored(server, cache):
        await until(lambda: len(exports(cache)) == 3)
        await until(lambda: len(cache.store.keys("cache.kcp.io/cachedobjects/")) == 2)
    for shard in ("plain", "marked", "begun"):
        server.request(path(shard, "acme", f"{EXPORTS}/one"), "DELETE")
    mark(server, "begun", PartMark(2, 0))
    async with mirrored(server, cache):
        await until(lambda: exports(cache) == {("begun", "one")})
        mark(server, "begun", PartMark(2, 5, is_complete=True))
        await until(lambda: not exports(cache))


async def test_a_wiped_server(server: CacheProcess) -> None:
    cache = make_cache(MemoryStore())
    for name in ("kept", "deleted"):
        write(server, "alpha", EXPORTS, export(name))
    write(server, "own", EXPORTS, export("mine"))
    mark(server, "alpha", PartMark(1, 1, is_complete=True))
    both = {("alpha", "kept"), ("alpha", "deleted")}
    returns: list[int] = []
    async with mirrored(server, cache) as mirror:
        mirror.on_return(lambda: returns.append(1))
        await until(lambda: exports(cache) == {*both, ("own", "mine")})
        await until(lambda: mirror.known_mark("alpha"))
        server.kill()
        server.wipe()
        server.start()
        await until(lambda: exports(cache) == both)  # the own part is this shard's to fill
        await until(lambda: len(returns) >= 2)
        mark(server, "alpha", PartMark(2, 0))
        write(server, "alpha", EXPORTS, export("kept"))
        assert exports(cache) == both
        mark(server, "alpha", PartMark(2, 9, is_complete=True))
        await until(lambda: exports(cache) == {("alpha", "kept")})


async def test_an_older_state_of_the_server(server: CacheProcess) -> None:
    """A server that was restored from a backup lacks what came later."""
    cache = make_cache(MemoryStore())
    write(server, "alpha", EXPORTS, export("early"))
    mark(server, "alpha", PartMark(2, 8, is_complete=True))
    async with mirrored(server, cache) as mirror:
        await until(lambda: mirror.known_mark("alpha") == PartMark(2, 8, is_complete=True))
        await until(lambda: exports(cache))
    server.request(path("alpha", "acme", f"{EXPORTS}/early"), "DELETE")
    mark(server, "alpha", PartMark(1, 3, is_complete=True))
    write(server, "beta", EXPORTS, export("other"))
    async with mirrored(server, cache) as mirror:
        await until(lambda: ("beta", "other") in exports(cache))
        write(server, "alpha", EXPORTS, export("late"))
        await until(lambda: ("alpha", "late") in exports(cache))
        assert ("alpha", "early") in exports(cache)
        assert mirror.known_mark("alpha") == PartMark(2, 8, is_complete=True)


REQUEST: Object = {
    "apiVersion": "cache.kcp.io/v1alpha1",
    "kind": "ClusterCachedResource",
    "metadata": {
        "name": "instances",
        "annotations": {
            "cache.kcp.io/resource-kind": "Instance",
            "cache.kcp.io/resource-scope": "Cluster",
        },
    },
    "spec": {"group": "machines.io", "version": "v1", "resource": "instances"},
    "status": {"identityHash": IDENTITY},
}


def instance(name: str) -> Object:
    return {"apiVersion": "machines.io/v1", "kind": "Instance", "metadata": {"name": name}}


async def test_requested_resources(server: CacheProcess) -> None:
    """What ClusterCachedResources ask for comes and goes with them."""
    cache = make_cache(MemoryStore())
    async with mirrored(server, cache):
        write(server, "alpha", REQUESTS, REQUEST)
        write(server, "alpha", "/apis/machines.io/v1/instances", instance("tiny"))
        await until(lambda: cache.store.keys(INSTANCES))
        server.request(path("alpha", "acme", f"{REQUESTS}/instances"), "DELETE")
        await until(lambda: not cache.store.keys(INSTANCES))


async def test_requested_resources_are_complete_when_all_were_read(server: CacheProcess) -> None:
    """The mark is listed with other kinds, and long before the objects that it is about."""
    cache, copies = make_cache(MemoryStore()), INSTANCES[:-1]
    write(server, "alpha", REQUESTS, REQUEST)
    for number in range(450):  # more than one write's worth
        write(server, "alpha", "/apis/machines.io/v1/instances", instance(f"n{number}"))
    write(server, "alpha", MARKS, copy_marks.mark_object("instances", copies))
    mark(server, "alpha", PartMark(1, 1, is_complete=True, marks_copies=True))
    seen: list[int] = []

    def is_complete() -> bool:
        place = join("alpha", "acme")
        if not has_all_copies(cache.store, "own", place, "instances", copies):
            return False
        seen.append(len(cache.store.keys(INSTANCES)))
        return True

    async with mirrored(server, cache) as mirror:
        await until(lambda: mirror.known_mark("alpha"))
        cache.store.listen(lambda _: is_complete() and None)
        await until(is_complete)
        assert set(seen) == {450}
    # after a restart it is known, whether or not the server is there
    async with mirrored(server, cache):
        assert is_complete()
        server.request(path("alpha", "acme", f"{MARKS}/instances"), "DELETE")
        await until(lambda: not is_complete())


async def test_a_cache_server_on_etcd(tmp_path: pathlib.Path) -> None:
    """Two servers on one etcd hold the same, and one of them may be gone."""
    if find_etcd() is None:
        pytest.skip("needs etcd")
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/cache")
    try:
        with cache_server(tmp_path / "two", *flags) as two:
            with cache_server(tmp_path / "one", *flags) as one:
                write(one, "alpha", EXPORTS, export("kept"))
            cache = make_cache(MemoryStore())
            async with mirrored(two, cache):
                await until(lambda: exports(cache) == {("alpha", "kept")})
            assert not (two.root / "cache.db").exists()
    finally:
        etcd.kill()
