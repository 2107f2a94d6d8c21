"""Quotas and object limits under races that a running server shows only now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykcp.admission.chain import AdmissionChain
from pykcp.admission.plugins.object_count import ANNOTATION, ObjectCountLimit, limit_of
from pykcp.admission.plugins.resource_quota import (
    RESOURCE_QUOTAS,
    Quotas,
    ResourceQuota,
    amount,
    count_name,
)
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.machinery.resources import CONFIG_MAPS, LOGICAL_CLUSTERS
from pykcp.machinery.status import AlreadyExists, Forbidden
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import Resource, Services
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.interface import Revisions
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import Operation
from pykcp.types import Object

COUNT = "count/configmaps"


class SlowStore(MemoryStore):
    """Lets others run before every write and count, as a disk does."""

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().write(operations)

    async def count(self, prefix: str) -> int:
        await asyncio.sleep(0)
        return await super().count(prefix)


class MiniServer:
    """A registry with the limits as its only admission; several may share a store."""

    def __init__(self, store: MemoryStore, default_limit: int = 0) -> None:
        chain = AdmissionChain()
        services = Services(store, WatchHub(store), chain, Sources(Timestamps(lambda: 1.7e9)))

        def make(definition: ResourceDefinition, version: str) -> Resource:
            return make_resource(definition, version, services)

        self.directory = Directory(builtin_definitions(), make)
        self.quotas = Quotas(store)
        self.limit = ObjectCountLimit(store, self.directory, default_limit)
        self.quota = ResourceQuota(store, self.quotas)
        chain.install([], [self.limit, self.quota])
        self.client = LocalClient(self.directory, "tester")

    async def create(self, name: str, cluster: str = "one", namespace: str = "default") -> bool:
        """Whether there was room for it."""
        body = {"metadata": {"name": name, "namespace": namespace}}
        try:
            await self.client.create(cluster, CONFIG_MAPS, body)
        except Forbidden:
            return False
        return True


async def _quota(server: MiniServer, limit: str, **status: Any) -> None:
    body: Object = {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {COUNT: limit}},
    }
    await server.client.create("one", RESOURCE_QUOTAS, body)
    if status:
        body = {**body, "status": status}
        await server.client.change("one", RESOURCE_QUOTAS, "q", lambda _: body, "default", "status")


async def _used(server: MiniServer) -> str:
    quota = await server.client.get("one", RESOURCE_QUOTAS, "q", "default")
    assert quota is not None
    used: str = quota["status"]["used"][COUNT]
    return used


@pytest.mark.parametrize("servers", [1, 3])
async def test_no_overshoot_however_many_servers_share_the_store(servers: int) -> None:
    """Each server knows nothing of the others' creates but what the store tells."""
    store = SlowStore()
    crowd = [MiniServer(store) for _ in range(servers)]
    await _quota(crowd[0], "7")
    created = await asyncio.gather(
        *(server.create(f"m{place}-{n}") for place, server in enumerate(crowd) for n in range(15))
    )
    assert created.count(True) == 7
    assert await store.count("core/configmaps/one/default/") == 7
    assert await _used(crowd[0]) == "7"


async def test_a_change_of_the_quota_meanwhile_is_not_lost() -> None:
    """Whoever edits the quota and whoever is counted see each other's work."""
    store = SlowStore()
    server = MiniServer(store)
    await _quota(server, "100")

    def label(number: int) -> Any:
        return lambda quota: quota["metadata"].setdefault("labels", {}).update({f"l{number}": "x"})

    edits = [
        server.client.change("one", RESOURCE_QUOTAS, "q", label(n), "default") for n in range(10)
    ]
    creates = [server.create(f"m{n}") for n in range(30)]
    await asyncio.gather(*edits, *creates)
    quota = await server.client.get("one", RESOURCE_QUOTAS, "q", "default")
    assert quota is not None
    assert len(quota["metadata"]["labels"]) == 10
    assert await _used(server) == "30"


async def test_what_exists_already_is_refused_as_such_and_not_counted() -> None:
    store = SlowStore()
    server = MiniServer(store)
    await _quota(server, "5")
    assert await server.create("m")
    with pytest.raises(AlreadyExists):
        await server.create("m")
    assert await _used(server) == "1"


async def test_namespaces_without_a_quota_are_remembered() -> None:
    """Until one is made there; and turns leave nothing behind."""
    server = MiniServer(SlowStore())
    assert await server.create("m")
    assert server.quotas.known("one", "default") == ()
    await _quota(server, "1")
    assert server.quotas.known("one", "default") is None
    assert not await server.create("n")
    assert len(server.quotas.known("one", "default") or ()) == 1
    await server.client.delete("one", RESOURCE_QUOTAS, "q", "default")
    assert await server.create("n")
    assert server.quotas._turns == {}


@pytest.mark.parametrize(
    ("limit", "used", "has_room"),
    [
        ("2", "1", True),
        ("2", "2", False),
        ("1k", "999", True),
        ("1k", "1k", False),
        ("0", "0", False),
    ],
)
async def test_amounts_are_quantities(limit: str, used: str, has_room: bool) -> None:
    server = MiniServer(SlowStore())
    await _quota(server, limit, hard={COUNT: limit}, used={COUNT: used})
    assert await server.create("m") is has_room


async def test_scopes_select_nothing_that_is_only_counted() -> None:
    server = MiniServer(SlowStore())
    body: Object = {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {COUNT: "0"}, "scopes": ["BestEffort"]},
    }
    await server.client.create("one", RESOURCE_QUOTAS, body)
    assert await server.create("m")


def test_names_and_amounts() -> None:
    assert count_name("", "configmaps") == COUNT
    assert count_name("apps", "deployments") == "count/deployments.apps"
    known = [str(amount(text)) for text in ("3", "2k", "1500m", "nonsense")]
    assert known == ["3", "2k", "1500m", "0"]


async def _ready(server: MiniServer, limit: str) -> None:
    body = {"metadata": {"name": "cluster", "annotations": {ANNOTATION: limit}}}
    await server.client.create("one", LOGICAL_CLUSTERS, body)
    await server.client.change(
        "one",
        LOGICAL_CLUSTERS,
        "cluster",
        lambda lc: lc.update(status={"phase": "Ready"}),
        "",
        "status",
    )


async def test_objects_are_counted_exactly_while_they_come_and_go() -> None:
    """The first count is taken in the middle of it."""
    store = SlowStore()
    server = MiniServer(store)
    for number in range(20):
        assert await server.create(f"old{number}")
    await _ready(server, "30")
    deletes = [
        server.client.delete("one", CONFIG_MAPS, f"old{n}", "default") for n in range(0, 20, 2)
    ]
    creates = [server.create(f"new{n}") for n in range(40)]
    await asyncio.gather(*creates, *deletes)
    for number in range(40):
        await server.create(f"more{number}")
    total = await store.count("core/configmaps/one/") + 1  # and the LogicalCluster
    assert total == 30


async def test_a_create_that_fails_leaves_its_place() -> None:
    store = SlowStore()
    server = MiniServer(store)
    await _ready(server, "3")
    assert await server.create("m")
    for _ in range(5):
        with pytest.raises(AlreadyExists):
            await server.create("m")
    assert await server.create("n")
    assert not await server.create("o")


async def test_no_count_is_kept_of_clusters_without_a_limit() -> None:
    server = MiniServer(SlowStore())
    for cluster in ("one", "two"):
        assert await server.create("m", cluster)
    assert not server.limit._counts


@pytest.mark.parametrize(
    ("cluster", "phase", "annotation", "limit"),
    [
        ("org", "Ready", None, 9),
        ("org", "Initializing", None, 0),
        ("org", "Ready", "5", 5),
        ("org", "Ready", "+5", 5),
        ("org", "Ready", "-5", -5),
        ("org", "Ready", "5.0", 9),
        ("org", "Ready", " 5", 9),
        ("org", "Ready", "٥", 9),
        ("org", "Ready", "99999999999999999999", 9),
        ("root", "Ready", None, 0),
        ("root", "Ready", "5", 5),
        ("system:admin", "Ready", None, 0),
    ],
)
def test_which_limit_holds(cluster: str, phase: str, annotation: str | None, limit: int) -> None:
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    obj = {"metadata": {"annotations": annotations}, "status": {"phase": phase}}
    assert limit_of(cluster, obj, 9) == limit
    assert limit_of(cluster, None, 9) == 0
