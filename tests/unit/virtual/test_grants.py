"""What consumers grant: read when it is asked for, and again when it changes."""

from __future__ import annotations

from pykcp.machinery.kcp.claims import sides
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry import codec
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.steps import at_once
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object
from pykcp.virtual.apiexport.grants import Grants

_EXPORT = ("provider", "west")
_PREFIX = kind_prefix(API_BINDINGS)
_CLAIM: Object = {"group": "", "resource": "configmaps", "verbs": ["get", "list"]}


def _binding(name: str, *given: Object, export: str = "west", plural: str = "") -> Object:
    bound = [{"group": "x.io", "resource": plural}] if plural else []
    return {
        "metadata": {"name": name},
        "spec": {
            "reference": {"export": {"path": "root:provider", "name": export}},
            "permissionClaims": [{"state": "Accepted", **one} for one in given],
        },
        "status": {"apiExportClusterName": "provider", "boundResources": bound, "phase": "Bound"},
    }


class _Consumer:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.grants = Grants(self.store)
        self.store.listen(self.grants.follow)

    async def write(self, binding: Object) -> None:
        key = object_key(_PREFIX, "c", "", binding["metadata"]["name"])
        await self.store.write([PutKey(key, codec.encode(binding, "c"))])

    async def delete(self, name: str) -> None:
        key = object_key(_PREFIX, "c", "", name)
        await self.store.write([DeleteKey(key, codec.encode(_binding(name), "c"))])


async def test_what_a_binding_grants() -> None:
    consumer = _Consumer()
    selected = {**_CLAIM, "resource": "secrets", "selector": {"matchLabels": {"a": "b"}}}
    refused = {**_CLAIM, "resource": "leases", "state": "Rejected"}
    everything = {**_CLAIM, "selector": {"matchAll": True}}
    await consumer.write(_binding("b", everything, selected, refused, plural="cowboys"))
    grant = await consumer.grants.of("c", _EXPORT)
    assert grant is not None
    assert consumer.grants.known("c", _EXPORT) is grant
    assert grant.bound == {("x.io", "cowboys")}
    assert grant.is_complete
    assert grant.selector("", "configmaps") is None
    assert grant.selector("", "secrets") == {"matchLabels": {"a": "b"}}
    asked = at_once(sides([{**_CLAIM, "verbs": ["get"]}, {**_CLAIM, "resource": "leases"}]))
    assert grant.allows(asked, "get", "", "configmaps")
    assert not grant.allows(asked, "list", "", "configmaps")
    assert not grant.allows(asked, "get", "", "leases")
    assert grant.allows(at_once(sides([_CLAIM])), "list", "", "configmaps")


async def test_only_changed_bindings_are_read_again() -> None:
    consumer = _Consumer()
    await consumer.write(_binding("b", plural="cowboys"))
    await consumer.write(_binding("other", export="east"))
    before = await consumer.grants.of("c", _EXPORT)
    await consumer.write(_binding("other", _CLAIM, export="east"))
    assert consumer.grants.known("c", _EXPORT) is None, "who may be another binding of it"
    assert await consumer.grants.of("c", _EXPORT) is before
    await consumer.write(_binding("b", plural="horses"))
    changed = await consumer.grants.of("c", _EXPORT)
    assert changed is not None
    assert changed.bound == {("x.io", "horses")}
    await consumer.write(_binding("a", plural="sheriffs"))
    first = await consumer.grants.of("c", _EXPORT)
    assert first is not None
    assert first.bound == {("x.io", "sheriffs")}, "of several the first one counts"
    await consumer.delete("a")
    await consumer.write(_binding("b", export="north"))
    assert await consumer.grants.of("c", _EXPORT) is None
    assert await consumer.grants.of("c", ("provider", "north")) is not None
