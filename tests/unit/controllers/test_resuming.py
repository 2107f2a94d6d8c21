"""Work that is older than the log remembers is found by index; a new CA goes everywhere."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykcp.controllers.kube.namespaces import RemovedNamespace
from pykcp.machinery import meta
from pykcp.machinery.resources import (
    CONFIG_MAPS,
    EVENTS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from pykcp.registry import codec
from pykcp.storage.operations import PutKey
from pykcp.types import Object

if TYPE_CHECKING:
    from .conftest import World


async def _until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not check():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0)


def _named(name: str, namespace: str = "", **metadata: object) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **where, **metadata}}


async def _compact(world: World) -> None:
    await world.store.compact(world.store.revision)


async def test_a_terminating_namespace_is_found_after_compaction(world: World) -> None:
    client = world.client
    await client.create("c", NAMESPACES, _named("gone"))
    await client.create("c", CONFIG_MAPS, _named("x", "gone"))
    await client.delete("c", NAMESPACES, "gone")
    await _compact(world)
    world.controllers().start(world.owner)
    await _until(lambda: world.lister.get("c", NAMESPACES, "gone") is None)
    assert world.lister.get("c", CONFIG_MAPS, "x", "gone") is None


async def test_what_was_written_too_late_is_swept_up(world: World) -> None:
    """A write can be admitted while its namespace is active and commit after it is gone."""
    client = world.client
    await client.create("c", LOGICAL_CLUSTERS, _named("cluster"))
    await client.create("c", NAMESPACES, _named("gone"))
    controllers = world.controllers()
    controllers.start(world.owner)
    await client.delete("c", NAMESPACES, "gone")
    await _until(lambda: world.lister.get("c", NAMESPACES, "gone") is None)
    namespaces = controllers.named("namespace-controller")
    assert namespaces.queue.delayed == 1
    store, late = world.store, "core/configmaps/c/gone/late"
    value = codec.encode(_named("late", "gone", uid="u"), "c")
    await store.write((PutKey(late, value, expect=0),))
    namespaces.add(RemovedNamespace("c", "gone"))
    await _until(lambda: store.get(late) is None)


async def test_a_foreground_deletion_is_found_after_compaction(world: World) -> None:
    client = world.client
    await client.create("c", NAMESPACES, _named("n"))
    owner = await client.create("c", CONFIG_MAPS, _named("owner", "n"))
    reference = {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": meta.uid(owner),
        "blockOwnerDeletion": True,
    }  # fmt: skip
    await client.create("c", CONFIG_MAPS, _named("dependent", "n", ownerReferences=[reference]))
    await client.delete("c", CONFIG_MAPS, "owner", "n", propagation="Foreground")
    assert world.lister.get("c", CONFIG_MAPS, "owner", "n") is not None
    await _compact(world)
    world.controllers().start(world.owner)
    await _until(lambda: world.lister.get("c", CONFIG_MAPS, "owner", "n") is None)
    assert world.lister.get("c", CONFIG_MAPS, "dependent", "n") is None


async def test_another_ca_reaches_every_namespace_and_root_last(world: World) -> None:
    client = world.client
    for cluster, name in (("root", "default"), ("a", "x"), ("z", "y")):
        await client.create(cluster, NAMESPACES, _named(name))
    first = world.controllers("ca-1")
    first.start(world.owner)

    def published(cluster: str, namespace: str) -> str:
        found = world.lister.get(cluster, CONFIG_MAPS, "kube-root-ca.crt", namespace) or {}
        return str((found.get("data") or {}).get("ca.crt"))

    await _until(lambda: published("root", "default") == "ca-1")
    assert published("a", "x") == published("z", "y") == "ca-1"
    await client.create("a", SERVICE_ACCOUNTS, _named("robot", "x"))
    token = _named("token", "x", annotations={"kubernetes.io/service-account.name": "robot"})
    token["type"] = "kubernetes.io/service-account-token"
    await client.create("a", SECRETS, token)

    def in_token() -> bytes:
        data = (world.lister.get("a", SECRETS, "token", "x") or {}).get("data") or {}
        return base64.b64decode(data.get("ca.crt", ""))

    await _until(lambda: in_token() == b"ca-1")
    await world.owner.stop()
    first.feed.stop()
    await _compact(world)
    order: list[str] = []
    world.store.listen(lambda events: order.extend(event.key for event in events))
    world.controllers("ca-2").start(world.owner)
    await _until(lambda: published("root", "default") == "ca-2")
    assert published("a", "x") == published("z", "y") == "ca-2"
    maps = [key for key in order if key.startswith("core/configmaps/")]
    assert maps[-1] == "core/configmaps/root/default/kube-root-ca.crt"
    await _until(lambda: in_token() == b"ca-2")


async def test_events_expire_an_hour_after_their_last_write(world: World) -> None:
    """Also those of a day long ago; an event that is written to again lives on."""
    client, start = world.client, world.now[0]
    await client.create("c", NAMESPACES, _named("n"))

    def event(name: str) -> Object:
        involved = {"kind": "ConfigMap", "name": "x", "namespace": "n"}
        return {**_named(name, "n"), "involvedObject": involved, "reason": "R", "type": "Normal"}

    await client.create("c", EVENTS, event("old"))
    await client.create("c", EVENTS, event("renewed"))
    world.now[0] = start + 1800

    def renew(live: Object) -> None:
        live["count"] = 2

    await client.change("c", EVENTS, "renewed", renew, "n")
    await _compact(world)

    def left() -> set[str]:
        names = ("old", "renewed")
        return {name for name in names if world.lister.get("c", EVENTS, name, "n") is not None}

    world.now[0] = start + 3600 + 61
    first = world.controllers()
    first.start(world.owner)
    await _until(lambda: left() == {"renewed"})
    expiry = first.named("event-expiry")
    await _until(lambda: expiry.queue.running == 0 and len(expiry.queue) == 0)
    assert expiry.queue.delayed == 1
    await world.owner.stop()
    first.feed.stop()
    world.now[0] = start + 40 * 86400
    second = world.controllers()
    second.start(world.owner)
    await _until(lambda: not left())
    await _until(lambda: second.named("event-expiry").queue.is_idle)


async def test_the_default_account_is_not_made_in_a_going_namespace(world: World) -> None:
    client = world.client
    await client.create("c", NAMESPACES, _named("going"))
    await client.create("c", CONFIG_MAPS, _named("held", "going", finalizers=["test.io/hold"]))
    await client.delete("c", NAMESPACES, "going")
    controllers = world.controllers()
    controllers.start(world.owner)
    await _until(lambda: _remaining(world.lister.get("c", NAMESPACES, "going")))
    assert world.lister.get("c", SERVICE_ACCOUNTS, "default", "going") is None
    await client.change("c", CONFIG_MAPS, "held", _without_finalizers, "going")
    await _until(lambda: world.lister.get("c", NAMESPACES, "going") is None)


def _without_finalizers(live: Object) -> None:
    live["metadata"].pop("finalizers", None)


def _remaining(namespace: Object | None) -> bool:
    conditions = ((namespace or {}).get("status") or {}).get("conditions") or ()
    return any(c["reason"] == "SomeFinalizersRemain" for c in conditions)
