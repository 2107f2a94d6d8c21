"""A workspace on its way back, interrupted at every write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.controllers.tenancy.trash import Trash
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import AlreadyExists, NotFound
from pykcp.registry import codec, trash
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.paths import PathIndex
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.interface import Operation, PutKey, Revisions
from pykcp.storage.memory import MemoryStore
from pykcp.types import Object

NOW = "2026-01-01T00:00:00Z"
PARENT, CLUSTER = "root", "abc"
WORKSPACE = object_key(kind_prefix(WORKSPACES), PARENT, "", "team")
LOGICAL_CLUSTER = object_key(kind_prefix(LOGICAL_CLUSTERS), CLUSTER, "", "cluster")
OWNER = {"cluster": PARENT, "name": "team", "resource": "workspaces", "uid": "w"}


class Interrupted(Exception):
    pass


class BrittleStore(MemoryStore):
    writes_left = 10**9

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        if not self.writes_left:
            raise Interrupted
        self.writes_left -= 1
        return await super().write(operations)


def put(key: str, cluster: str, **obj: Object) -> PutKey:
    return PutKey(key, codec.encode(obj, cluster), "", (), 0)


def going(name: str, uid: str, **more: object) -> Object:
    return {"name": name, "uid": uid, "deletionTimestamp": NOW, **more}


def make_trash(store: MemoryStore) -> Trash:
    hub = WatchHub(store)
    services = Services(store, hub, NoAdmission(), Sources(Timestamps(lambda: 0.0)))

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    directory = Directory(builtin_definitions(), make)
    lookup = ObjectLookup(store, directory, PathIndex(store))
    return Trash(store, directory, lookup, lambda: NOW, 3600.0)


def map_key(number: int) -> str:
    return f"core/configmaps/{CLUSTER}/default/m{number:03}"


COUNT = 70


async def thrown_away(store: BrittleStore) -> Trash:
    """A parent, and a workspace in the trash whose first object is owned by its last."""
    parent = object_key(kind_prefix(LOGICAL_CLUSTERS), PARENT, "", "cluster")
    await store.write([put(parent, PARENT, metadata={"name": "cluster", "uid": "p"})])
    status = {"phase": "Deleting", "conditions": []}
    spec = {"cluster": CLUSTER}
    metadata = going("team", "w", finalizers=["core.kcp.io/logicalcluster"])
    await store.write([put(WORKSPACE, PARENT, metadata=metadata, spec=spec, status=status)])
    metadata = going("cluster", "l", finalizers=["core.kcp.io/logicalcluster-deletion"])
    await store.write(
        [put(LOGICAL_CLUSTER, CLUSTER, metadata=metadata, spec={"owner": OWNER}, status=status)]
    )
    for number in range(COUNT):
        metadata = {"name": f"m{number:03}", "namespace": "default", "uid": f"u{number}"}
        if number == 0:
            metadata["ownerReferences"] = [{"uid": f"u{COUNT - 1}", "name": "", "kind": ""}]
        await store.write([put(map_key(number), CLUSTER, metadata=metadata)])
    bin_ = make_trash(store)
    await store.write(bin_.throw(map(map_key, range(COUNT))))
    entry = store.get(LOGICAL_CLUSTER)
    assert entry is not None
    record = bin_.record(WORKSPACE, codec.decode(entry.value))
    assert record is not None
    await store.write([record])
    for key in (WORKSPACE, LOGICAL_CLUSTER):
        entry = store.get(key)
        assert entry is not None
        await store.write([trash.thrown(entry)[0]])
    return bin_


def live(store: MemoryStore) -> list[str]:
    return [key for key in store.keys("") if not trash.is_trash(key)]


@pytest.mark.parametrize("writes", range(8))
async def test_it_goes_on_wherever_it_was_interrupted(writes: int) -> None:
    store = BrittleStore()
    bin_ = await thrown_away(store)
    assert len(live(store)) == 1  # the parent
    (record,) = bin_.records(PARENT)
    store.writes_left = writes
    with pytest.raises(Interrupted):
        await bin_.restore(record)
    store.writes_left = 10**9
    again = make_trash(store)
    if writes == 0:
        assert [found.name for found in again.records(PARENT)] == ["team"]
        await again.restore(record)
    else:
        (key,) = store.lookup(trash.UNFINISHED)
        assert again.is_coming_back(CLUSTER)
        assert list(again.records(PARENT)) == []
        await again.resume(key)
    assert len(live(store)) == COUNT + 3
    assert not store.keys("~")
    entry = store.get(WORKSPACE)
    assert entry is not None
    workspace = codec.decode(entry.value)
    assert "deletionTimestamp" not in workspace["metadata"]
    assert (workspace["metadata"]["uid"], workspace["status"]["phase"]) == ("w", "Ready")


async def test_owners_come_first() -> None:
    store = BrittleStore()
    bin_ = await thrown_away(store)
    (record,) = bin_.records(PARENT)
    order: list[str] = []
    store.listen(lambda events: order.extend(e.key for e in events if e.created))
    await bin_.restore(record)
    returned = [key for key in order if key.startswith("core/configmaps/")]
    assert returned.index(map_key(COUNT - 1)) < returned.index(map_key(0))
    assert store.lookup(f"owner:{CLUSTER}:u{COUNT - 1}") == [map_key(0)]
    assert order[-2:] == [WORKSPACE, LOGICAL_CLUSTER]


async def test_two_who_restore_the_same() -> None:
    store = BrittleStore()
    bin_ = await thrown_away(store)
    (record,) = bin_.records(PARENT)
    outcomes = await asyncio.gather(
        bin_.restore(record),
        bin_.restore(record),
        bin_.resume(record.key),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), NotFound, type(None)]
    assert len(live(store)) == COUNT + 3


async def test_a_name_that_is_taken_on_the_way_leaves_the_trash_as_it_was() -> None:
    store = BrittleStore()
    bin_ = await thrown_away(store)
    (record,) = bin_.records(PARENT)
    before = store.keys("~")
    store.writes_left = 2
    with pytest.raises(Interrupted):
        await bin_.restore(record)
    store.writes_left = 10**9
    await store.write([put(WORKSPACE, PARENT, metadata={"name": "team", "uid": "other"})])
    with pytest.raises(AlreadyExists):
        await bin_.resume(record.key)
    assert store.keys("~") == before
    assert len(live(store)) == 2
    assert [found.name for found in bin_.records(PARENT)] == ["team"]
    await bin_.forget(record)
    assert store.keys("~") == []


@pytest.mark.parametrize(
    "key",
    [
        "core/secrets/abc/default/token",
        "core/namespaces/abc//default",
        "wild.west/cowboys:1234/abc/default/joe",
    ],
)
def test_keys_lead_back(key: str) -> None:
    away = trash.trash_key(key)
    assert away.startswith("~")
    assert "/system:trash/abc/" in away
    assert trash.original_key(away) == key
