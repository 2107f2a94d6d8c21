"""What bindings bring: decoding of their status, and the lists that discovery keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry import codec
from pykcp.registry.catalog.bindings import NOTHING, BoundResource, BoundSets, decode_binding
from pykcp.registry.catalog.bound_discovery import BoundDiscovery
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.steps import Steps, at_once
from pykcp.storage.interface import Event
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey
from pykcp.types import Object


def _bound(plural: str, **more: object) -> Object:
    return {
        "group": "wild.west",
        "resource": plural,
        "schema": {"name": "s", "UID": f"uid-{plural}", "identityHash": "hash"},
        **more,
    }


def _binding(name: str, *bound: Object, **metadata: object) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"reference": {"export": {"path": "root:provider", "name": "west"}}},
        "status": {"apiExportClusterName": "abc", "boundResources": list(bound)},
    }


def test_a_binding_that_has_bound_nothing_yet() -> None:
    value = orjson.dumps({"metadata": {"name": "b"}, "spec": {}})
    assert dict(decode_binding(value)) == {}


def test_every_field_of_a_bound_resource() -> None:
    binding = _binding(
        "b", _bound("cowboys", storageVersions=["v1"]), _bound("horses"), deletionTimestamp="now"
    )
    assert dict(decode_binding(orjson.dumps(binding))) == {
        ("wild.west", "cowboys"): BoundResource(
            "uid-cowboys", "hash", "b", "abc", "west", is_terminating=True, is_stored=True
        ),
        ("wild.west", "horses"): BoundResource(
            "uid-horses", "hash", "b", "abc", "west", is_terminating=True, is_stored=False
        ),
    }


async def test_all_bindings_of_one_cluster_and_of_no_other() -> None:
    store = MemoryStore()
    prefix = kind_prefix(API_BINDINGS)
    for cluster, name, plural in (("c1", "a", "cowboys"), ("c1", "b", "horses"), ("c2", "a", "x")):
        value = codec.encode(_binding(name, _bound(plural)), cluster)
        await store.write([PutKey(object_key(prefix, cluster, "", name), value)])
    sets = BoundSets(store)
    assert [plural for _, plural in sets.of_cluster("c1")] == ["cowboys", "horses"]
    assert sets.of_cluster("c3") is NOTHING


def _telling(sets: BoundSets) -> Callable[[Sequence[Event]], None]:
    def follow(events: Sequence[Event]) -> None:
        for event in events:
            sets.changed(event, split_key(event.key).cluster)

    return follow


async def test_large_bindings_are_decoded_once_per_change() -> None:
    store = MemoryStore()
    sets = BoundSets(store)
    prefix = kind_prefix(API_BINDINGS)

    store.listen(_telling(sets))

    async def write(name: str, *bound: Object) -> None:
        value = codec.encode(_binding(name, *bound), "c")
        await store.write([PutKey(object_key(prefix, "c", "", name), value)])

    await write("small", _bound("horses"))
    await write("wide", *(_bound(f"r{number}") for number in range(1_000)))
    found = sets.of_cluster("c")
    assert len(found) == 1_001
    assert found["wild.west", "r999"].binding == "wide"
    before = found["wild.west", "r999"]
    await write("small", _bound("cowboys"))
    found = sets.of_cluster("c")
    assert ("wild.west", "horses") not in found
    assert found["wild.west", "r999"] is before
    await write("wide", _bound("r1"))
    assert sorted(plural for _, plural in sets.of_cluster("c")) == ["cowboys", "r1"]


async def test_large_bindings_are_read_in_steps() -> None:
    store = MemoryStore()
    sets = BoundSets(store)
    prefix = kind_prefix(API_BINDINGS)

    async def write(name: str, count: int) -> None:
        bound = (_bound(f"{name}{number}", storageVersions=["v1"]) for number in range(count))
        value = codec.encode(_binding(name, *bound), "c")
        await store.write([PutKey(object_key(prefix, "c", "", name), value)])

    for name, count in (("a", 3), ("b", 900), ("c", 700)):
        await write(name, count)
    store.listen(_telling(sets))
    steps = sets.in_steps("c")
    for _ in range(1000):
        next(steps)
    await write("a", 2)  # meanwhile
    assert len(at_once(steps)) in (1_602, 1_603)
    found = at_once(sets.in_steps("c"))
    assert len(found) == 1_602
    assert sets.of_cluster("c") is found
    assert found == BoundSets(store).of_cluster("c")


class _Definitions:
    def __init__(self) -> None:
        self.reads: list[str] = []
        self._all = builtin_definitions()[:3]

    def read(self, cluster: str) -> Steps[tuple[ResourceDefinition, ...]]:
        self.reads.append(cluster)
        yield
        return tuple(self._all)


async def test_lists_are_made_once_until_something_changes() -> None:
    definitions = _Definitions()
    discovery = BoundDiscovery(definitions.read)
    assert discovery.definitions("*") == discovery.definitions("") == ()
    assert discovery.is_loaded("*")
    assert not discovery.is_loaded("c")
    assert len(discovery.definitions("c")) == 3
    assert discovery.is_loaded("c")
    discovery.definitions("c")
    await discovery.load("c")
    assert definitions.reads == ["c"]
    discovery.forget("c")
    assert not discovery.is_loaded("c")
    await discovery.load("c")
    assert discovery.is_loaded("c")
    discovery.forget_all()
    assert not discovery.is_loaded("c")
