"""Configurations are read once per cluster, shared by content, and forgotten on change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pykcp.admission.configurations import NONE, AdmissionHooks, Configurations
from pykcp.auth.user import User
from pykcp.registry.codec import encode
from pykcp.registry.context import RequestContext
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.storage.interface import Value
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore

GROUP = "admissionregistration.k8s.io"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def _request(cluster: str) -> AdmissionRequest:
    none: Any = None
    return AdmissionRequest(RequestContext(cluster, User("u")), none, "CREATE", "", "x", None)


def _with_store(tmp_path: Path, body: Callable[[SQLiteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.start()
        try:
            await body(store)
        finally:
            await store.stop()

    asyncio.run(run())


async def _put(store: SQLiteStore, plural: str, cluster: str, name: str, **parts: Any) -> str:
    key = object_key(resource_prefix(GROUP, plural), cluster, "", name)
    await store.write((PutKey(key, encode({"metadata": {"name": name}, **parts}, cluster)),))
    return key


async def _webhook(store: SQLiteStore, cluster: str, name: str, url: str = "https://x") -> str:
    hook = {"name": f"{name}.example.com", "clientConfig": {"url": url}, "rules": [RULE]}
    return await _put(store, "validatingwebhookconfigurations", cluster, name, webhooks=[hook])


def test_a_cluster_without_configurations_costs_a_lookup(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        known = Configurations(store)
        assert "a" not in known.known
        assert await known.applying(_request("a")) is NONE
        assert known.known.get("a") is NONE

    _with_store(tmp_path, body)


def test_changes_are_seen_and_other_clusters_are_left_alone(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        known = Configurations(store)
        for cluster in ("a", "b"):
            await known.applying(_request(cluster))
        key = await _webhook(store, "a", "second")
        await _webhook(store, "a", "first")
        assert "a" not in known.known
        assert known.known.get("b") is NONE
        hooks = await known.applying(_request("a"))
        assert [hook.configuration for hook in hooks.validating_webhooks] == ["first", "second"]
        await store.write((DeleteKey(key, Value(b"", b"")),))
        hooks = await known.applying(_request("a"))
        assert [hook.uid for hook in hooks.validating_webhooks] == ["first/first.example.com/0"]

    _with_store(tmp_path, body)


def test_equal_objects_of_two_clusters_are_parsed_once(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        known = Configurations(store)
        await _webhook(store, "a", "same")
        await _webhook(store, "b", "same")
        await _webhook(store, "c", "same", "https://other")
        found = [(await known.applying(_request(c))).validating_webhooks[0] for c in "abc"]
        assert found[0] is found[1]
        assert found[0] is not found[2]

    _with_store(tmp_path, body)


def test_policies_act_when_they_are_bound(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        known = Configurations(store)
        spec = {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": "false"}],
        }
        await _put(store, "validatingadmissionpolicies", "a", "p", spec=spec)
        assert (await known.applying(_request("a"))).validating_policies == ()
        for name in ("y", "x"):
            bound = {"policyName": "p", "validationActions": ["Deny"]}
            await _put(store, "validatingadmissionpolicybindings", "a", name, spec=bound)
        dangling = {"policyName": "none", "validationActions": ["Deny"]}
        await _put(store, "validatingadmissionpolicybindings", "a", "z", spec=dangling)
        (policy,) = (await known.applying(_request("a"))).validating_policies
        assert [binding.name for binding in policy.bindings] == ["x", "y"]

    _with_store(tmp_path, body)


class _SlowStore:
    """Delays lists until it is told to go on, and counts those that are in progress."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self.has_begun, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.current = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list(self, query: Any) -> Any:
        self.current += 1
        self.most = max(self.most, self.current)
        self.has_begun.set()
        page = await self._store.list(query)
        await self.may_go_on.wait()
        self.current -= 1
        return page


def _names(hooks: AdmissionHooks) -> list[str]:
    return [hook.configuration for hook in hooks.validating_webhooks]


def test_what_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        slow = _SlowStore(store)
        known = Configurations(slow)
        await _webhook(store, "a", "first")
        before = asyncio.ensure_future(known.applying(_request("a")))
        await slow.has_begun.wait()
        await _webhook(store, "a", "second")
        after = asyncio.ensure_future(known.applying(_request("a")))
        slow.may_go_on.set()
        await before
        assert _names(await after) == ["first", "second"]
        assert known.known.get("a") is await after

    _with_store(tmp_path, body)


def test_a_cluster_is_read_once_at_a_time_however_often_it_changes(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        slow = _SlowStore(store)
        known = Configurations(slow)
        waiting = []
        for n in range(20):
            await _webhook(store, "a", f"n{n:02}")
            waiting.append(asyncio.ensure_future(known.applying(_request("a"))))
            await asyncio.sleep(0.001)
        slow.may_go_on.set()
        for n, request in enumerate(waiting):
            assert len(_names(await request)) > n  # what was there when it came, at least
        assert slow.most == 1

    _with_store(tmp_path, body)


def test_changes_elsewhere_do_not_make_a_reading_useless(tmp_path: Path) -> None:
    async def body(store: SQLiteStore) -> None:
        slow = _SlowStore(store)
        known = Configurations(slow)
        await _webhook(store, "a", "own")
        loading = asyncio.ensure_future(known.applying(_request("a")))
        await slow.has_begun.wait()
        await _webhook(store, "b", "other")
        slow.may_go_on.set()
        assert await loading is known.known.get("a")

    _with_store(tmp_path, body)
