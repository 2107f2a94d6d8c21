"""Restoring a workspace: interrupted at every write, refused, and checked like a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pykcp.admission.chain import AdmissionChain
from pykcp.admission.plugins.resource_quota import Quotas, ResourceQuota
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions, definition_of
from pykcp.auth.user import User
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import AlreadyExists, Forbidden, NotFound
from pykcp.registry import codec, trash
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.paths import PathIndex
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.admitting import Admission, AdmissionRequest, NoAdmission
from pykcp.registry.verbs.restore import Trash
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.interface import Revisions
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import Operation, PutKey
from pykcp.types import Object

NOW = "2026-01-01T00:00:00Z"
PARENT, CLUSTER = "root", "abc"
WORKSPACE = object_key(kind_prefix(WORKSPACES), PARENT, "", "team")
LOGICAL_CLUSTER = object_key(kind_prefix(LOGICAL_CLUSTERS), CLUSTER, "", "cluster")
ALICE = User("alice", "a1", ("team",), {"scope": ("x",)})
OWNER = {
    "apiVersion": "tenancy.kcp.io/v1alpha1",
    "cluster": PARENT,
    "name": "team",
    "resource": "workspaces",
    "uid": "w",
}


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


def make_trash(store: MemoryStore, admission: Admission | None = None) -> Trash:
    hub = WatchHub(store)
    services = Services(store, hub, admission or NoAdmission(), Sources(Timestamps(lambda: 0.0)))

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    workspaces = definition_of(WORKSPACES.group, WORKSPACES.resource)
    directory = Directory((*builtin_definitions(), workspaces), make)
    lookup = ObjectLookup(store, directory, PathIndex(store))
    return Trash(store, directory, lookup, lambda: NOW, 3600.0)


def map_key(number: int) -> str:
    return f"core/configmaps/{CLUSTER}/default/m{number:03}"


COUNT = 70


async def deleted_workspace(store: BrittleStore) -> Trash:
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
    for number in range(COUNT):
        entry = store.get(map_key(number))
        assert entry is not None
        await store.write(trash.moved_to_trash(store, entry))
    entry = store.get(LOGICAL_CLUSTER)
    assert entry is not None
    record = bin_.new_record(WORKSPACE, codec.decode(entry.value))
    assert record is not None
    await store.write(record.operations)
    for key in (WORKSPACE, LOGICAL_CLUSTER):
        entry = store.get(key)
        assert entry is not None
        await store.write([trash.moved(entry)[0]])
    return bin_


def live(store: MemoryStore) -> list[str]:
    return [key for key in store.keys("") if not trash.is_trash(key)]


@pytest.mark.parametrize("writes", range(8))
async def test_it_goes_on_wherever_it_was_interrupted(writes: int) -> None:
    store = BrittleStore()
    bin_ = await deleted_workspace(store)
    assert len(live(store)) == 1  # the parent
    (record,) = bin_.records(PARENT)
    store.writes_left = writes
    with pytest.raises(Interrupted):
        await bin_.restore(record, ALICE)
    store.writes_left = 10**9
    again = make_trash(store)
    if writes == 0:
        assert [found.name for found in again.records(PARENT)] == ["team"]
        await again.restore(record, ALICE)
    else:
        (key,) = store.lookup(trash.UNFINISHED)
        assert again.is_restoring(CLUSTER)
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
    bin_ = await deleted_workspace(store)
    (record,) = bin_.records(PARENT)
    order: list[str] = []
    store.listen(lambda events: order.extend(e.key for e in events if e.created))
    await bin_.restore(record, ALICE)
    returned = [key for key in order if key.startswith("core/configmaps/")]
    assert returned.index(map_key(COUNT - 1)) < returned.index(map_key(0))
    assert store.lookup(f"owner:{CLUSTER}:u{COUNT - 1}") == [map_key(0)]
    assert order[-2:] == [WORKSPACE, LOGICAL_CLUSTER]


async def test_two_who_restore_the_same() -> None:
    store = BrittleStore()
    bin_ = await deleted_workspace(store)
    (record,) = bin_.records(PARENT)
    outcomes = await asyncio.gather(
        bin_.restore(record, ALICE),
        bin_.restore(record, ALICE),
        bin_.resume(record.key),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), NotFound, type(None)]
    assert len(live(store)) == COUNT + 3


class Watchful(NoAdmission):
    """Admits everything and notes it, until it is told to refuse."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bool]] = []
        self.refuses = False

    async def validate(self, request: AdmissionRequest) -> None:
        context = request.context
        self.seen.append(
            (context.user.name, request.operation, request.resource.plural, context.dry_run)
        )
        assert request.obj is not None
        if request.resource.plural == "workspaces":
            # What its creator would send, not what the system added to it.
            assert request.obj["metadata"]["uid"] != "w"
            assert "cluster" not in request.obj.get("spec", {})
            if self.refuses and not context.dry_run:
                raise Forbidden("no room")


async def test_it_is_admitted_as_a_new_one_of_the_user_who_asks() -> None:
    store = BrittleStore()
    await deleted_workspace(store)
    admission = Watchful()
    bin_ = make_trash(store, admission)
    (record,) = bin_.records(PARENT)
    await bin_.restore(record, ALICE)
    assert admission.seen == [
        ("alice", "CREATE", "workspaces", True),
        ("alice", "CREATE", "workspaces", False),
        ("system:apiserver", "CREATE", "logicalclusters", False),
    ]


COUNTED = "count/workspaces.tenancy.kcp.io"
QUOTA = object_key("core/resourcequotas/", PARENT, "admin", "few")


def _quota(used: str) -> Object:
    """It counts the workspaces of the whole parent and has room for one."""
    annotations = {"experimental.quota.kcp.io/cluster-scoped": "true"}
    return {
        "metadata": {"name": "few", "namespace": "admin", "annotations": annotations},
        "spec": {"hard": {COUNTED: "1"}},
        "status": {"used": {COUNTED: used}},
    }


def _counting(store: MemoryStore) -> AdmissionChain:
    chain = AdmissionChain()
    chain.install([], [ResourceQuota(store, Quotas(store))])
    return chain


async def test_quotas_count_it_in_the_same_write() -> None:
    store = BrittleStore()
    await deleted_workspace(store)
    await store.write([put(QUOTA, PARENT, **_quota(used="0"))])
    bin_ = make_trash(store, _counting(store))
    (record,) = bin_.records(PARENT)
    batches: list[list[str]] = []
    store.listen(lambda events: batches.append([event.key for event in events]))
    await bin_.restore(record, ALICE)
    (counted,) = [batch for batch in batches if WORKSPACE in batch]
    assert QUOTA in counted
    entry = store.get(QUOTA)
    assert entry is not None
    assert codec.decode(entry.value)["status"]["used"] == {COUNTED: "1"}


async def test_a_quota_without_room_refuses_it_before_anything_is_moved() -> None:
    store = BrittleStore()
    await deleted_workspace(store)
    await store.write([put(QUOTA, PARENT, **_quota(used="1"))])
    bin_ = make_trash(store, _counting(store))
    (record,) = bin_.records(PARENT)
    before = store.revision
    with pytest.raises(Forbidden, match="exceeded quota: few"):
        await bin_.restore(record, ALICE)
    assert store.revision == before


async def test_the_user_is_remembered_when_it_is_interrupted() -> None:
    store = BrittleStore()
    bin_ = await deleted_workspace(store)
    (record,) = bin_.records(PARENT)
    store.writes_left = 2
    with pytest.raises(Interrupted):
        await bin_.restore(record, ALICE)
    store.writes_left = 10**9
    admission = Watchful()
    await make_trash(store, admission).resume(record.key)
    assert [seen[0] for seen in admission.seen] == ["alice", "system:apiserver"]


async def test_a_refusal_at_the_last_moment_leaves_the_trash_as_it_was() -> None:
    store = BrittleStore()
    await deleted_workspace(store)
    before = store.keys("~")
    admission = Watchful()
    admission.refuses = True
    bin_ = make_trash(store, admission)
    (record,) = bin_.records(PARENT)
    with pytest.raises(Forbidden):
        await bin_.restore(record, ALICE)
    assert store.keys("~") == before
    assert len(live(store)) == 1
    assert [found.requested_by for found in bin_.records(PARENT)] == [{}]
    admission.refuses = False
    await bin_.restore(record, ALICE)
    assert len(live(store)) == COUNT + 3


async def test_records_of_earlier_versions_are_read() -> None:
    store = BrittleStore()
    bin_ = await deleted_workspace(store)
    (record,) = bin_.records(PARENT)
    stored = {"metadata": {"name": record.name}, **record._asdict()}
    del stored["requested_by"]
    value = codec.fill(codec.encode(stored, trash.CLUSTER), 1)
    assert trash.record_from(value) == record


async def test_a_name_that_is_taken_on_the_way_leaves_the_trash_as_it_was() -> None:
    store = BrittleStore()
    bin_ = await deleted_workspace(store)
    (record,) = bin_.records(PARENT)
    before = store.keys("~")
    store.writes_left = 2
    with pytest.raises(Interrupted):
        await bin_.restore(record, ALICE)
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
