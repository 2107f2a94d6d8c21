"""Which objects are judged again when roles change."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change
from pykcp.controllers.cache.replicate_marking import MarkingResult, ReplicateMarking
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from pykcp.registry import codec
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.local_lister import LocalLister
from pykcp.storage.interface import Page, Query
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey


class CountingStore(MemoryStore):
    lists = 0

    async def list(self, query: Query) -> Page:
        self.lists += 1
        return await super().list(query)


def _key(kind: Any, name: str) -> str:
    return object_key(kind_prefix(kind), "c", "", name)


def _binding(name: str, role: str) -> PutKey:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    obj = {"metadata": {"name": name}, "roleRef": reference}
    return PutKey(_key(CLUSTER_ROLE_BINDINGS, name), codec.encode(obj, "c"))


async def test_bindings_of_many_roles_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of changed roles take one look at the bindings of their cluster."""
    store = CountingStore()
    await store.write([_binding(f"b{n}", f"r{n % 5000}") for n in range(5_010)])
    nobody: Any = None
    marking = ReplicateMarking(LocalLister(store, nobody), nobody, nobody)
    judged: list[MarkingResult] = []
    monkeypatch.setattr(marking.controller, "add", judged.append)
    for n in range(5_000):
        ref = ObjectRef(kind_id(CLUSTER_ROLES), "c", "", f"r{n}")
        marking._on_role(Change(ref, n + 1, b"{}", "", False, False, store.get_before))
    assert store.lists == 0
    again = set(judged)
    assert len(again) == 5_001
    judged.clear()
    await marking.reconcile(MarkingResult(CLUSTER_ROLE_BINDINGS, "c", ""))
    assert 0 < store.lists < 20  # the pages of one look
    assert {one.name for one in judged} == {f"b{n}" for n in range(5_010)}
    judged.clear()
    await marking.reconcile(MarkingResult(CLUSTER_ROLE_BINDINGS, "c", ""))
    assert not judged
