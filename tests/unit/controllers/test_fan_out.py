"""Changes that concern thousands: the handler is quick, and the keys are found in slices."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pykcp.controllers.cache.replicate_marking import ReplicateMarking
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import FEW, add_indexed, add_stored
from pykcp.machinery.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GroupVersionResource
from pykcp.registry.keys import kind_prefix
from pykcp.registry.local_lister import LocalLister, metadata_pages
from pykcp.registry.log_feed import LogFeed
from pykcp.storage.interface import Entry, Page, Query, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey

MANY = 3000
A = GroupVersionResource("", "v1", "a")


def lister_of(store: MemoryStore) -> LocalLister:
    nothing: Any = None  # kinds are not looked up here
    return LocalLister(store, nothing)


def stored(name: str, **more: object) -> Value:
    metadata = {"name": name, "uid": name, "resourceVersion": "@"}
    head, tail = json.dumps({"metadata": metadata, **more}).encode().split(b"@")
    return Value(head, tail)


class CountingStore(MemoryStore):
    reads = 0
    largest = 0

    def get(self, key: str) -> Entry | None:
        self.reads += 1
        return super().get(key)

    async def list(self, query: Query) -> Page:
        self.reads += 1
        page = await super().list(query)
        self.largest = max(self.largest, sum(map(len, page.values)))
        return page


async def test_few_keys_are_queued_at_once_and_many_later() -> None:
    store = MemoryStore()
    controller: Controller[str] = Controller("c", _nothing)
    for number in range(FEW):
        await store.write([PutKey(f"core/a/c//{number:02}", Value(b"", b""), indexes=("x",))])
    add_indexed(controller, lister_of(store), "x", A, str)
    assert len(controller.queue) == FEW
    await store.write([PutKey("core/a/c//more", Value(b"", b""), indexes=("x",))])
    add_indexed(controller, lister_of(store), "x", A, str)
    assert len(controller.queue) == FEW  # the rest when it is its turn


async def test_all_of_them_are_looked_at_once() -> None:
    store = MemoryStore()
    for number in range(MANY):
        await store.write(
            [PutKey(f"core/a/c//{number:05}", stored(f"{number:05}"), indexes=("x",))]
        )
    seen: list[str] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> None:
        seen.append(key)
        if len(seen) == MANY:
            done.set()

    controller: Controller[str] = Controller("c", reconcile)
    task = asyncio.create_task(controller.run())
    add_indexed(controller, lister_of(store), "x", A, lambda ref: ref.name)
    add_indexed(controller, lister_of(store), "x", A, lambda ref: ref.name)
    await done.wait()
    assert len(set(seen)) == len(seen) == MANY
    seen.clear()
    done.clear()
    add_stored(controller, lister_of(store), "core/a", "c", lambda metadata: metadata.name)
    await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_role_is_marked_without_a_search_on_the_way() -> None:
    """However many bindings its cluster has: they are searched for later, page by page."""
    store = CountingStore()
    for number in range(MANY):
        name = f"b{number}"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
        key = f"{kind_prefix(CLUSTER_ROLE_BINDINGS)}c//{name}"
        await store.write([PutKey(key, stored(name, roleRef=reference))])
    nobody: Any = None
    marking = ReplicateMarking(lister_of(store), nobody, nobody)
    feed = LogFeed(store)
    marking.follow(feed)
    feed.start()
    store.reads = 0
    await store.write([PutKey(f"{kind_prefix(CLUSTER_ROLES)}c//r", stored("r"))])
    assert store.reads == 0


async def test_pages_of_large_objects_are_short() -> None:
    store = CountingStore()
    for number in range(100):
        await store.write(
            [PutKey(f"core/a/c//{number:03}", stored(f"{number}", data="x" * 200_000))]
        )
    names = [one.name async for page in metadata_pages(store, "core/a/") for one in page]
    assert len(names) == 100
    assert store.reads > 5  # rather than one page of 20 MB
    assert store.largest <= 32 * 200_200


async def _nothing(_: str) -> None:
    return
