"""Feeds and listers: what both clients promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from pykcp.apis.kcp_catalog import kind_id
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import (
    CONFIG_MAPS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKSPACES,
)
from pykcp.machinery.terms import field_term, label_term
from pykcp.registry.indexes.entries import DELETING, owner_entry

from .conftest import NAMESPACE

if TYPE_CHECKING:
    from pykcp.clients.interface import Change
    from pykcp.types import Object

    from .conftest import Seam

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _created(seam: Seam, name: str, **more: object) -> Object:
    return await seam.client.create(seam.cluster, CONFIG_MAPS, seam.config_map(name, **more))


def _key(seam: Seam, name: str) -> ObjectKey:
    return ObjectKey(seam.cluster, NAMESPACE, seam.named(name))


def _kinds(changes: list[Change]) -> list[str]:
    return [
        "deleted" if change.deleted else "created" if change.created else "changed"
        for change in changes
    ]


async def test_what_is_there_then_what_happens(seam: Seam) -> None:
    made = await _created(seam, "a", data={"n": "1"})
    followed = seam.feed()
    followed.follow(CONFIG_MAPS)
    key = _key(seam, "a")
    async with followed.running():
        await followed.feed.synced()
        first = followed.of(key)
        assert first
        assert orjson.loads(first[-1].value)["data"] == {"n": "1"}
        count = len(first)
        where = (seam.cluster, CONFIG_MAPS, seam.named("a"))
        await seam.client.update(seam.cluster, CONFIG_MAPS, {**made, "data": {"n": "2"}})
        await seam.client.delete(*where, NAMESPACE)
        await _created(seam, "a", data={"n": "3"})
        await followed.until(lambda _: len(followed.of(key)) == count + 3)
    changes = followed.of(key)[count:]
    assert _kinds(changes) == ["changed", "deleted", "created"]
    assert [orjson.loads(c.value)["data"] for c in changes] == [{"n": "2"}, {"n": "2"}, {"n": "3"}]
    assert orjson.loads(changes[0].previous() or b"")["data"] == {"n": "1"}
    assert [c.revision for c in changes] == sorted({c.revision for c in changes})


async def test_all_logical_clusters_are_told(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(NAMESPACES)
    async with followed.running():
        await followed.feed.synced()
        assert len({change.cluster for change in followed.changes}) > 1


async def test_kinds_that_are_not_followed_are_not_told(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(SECRETS)
    async with followed.running():
        await followed.feed.synced()
        await _created(seam, "a")
        secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": seam.named("s")}}
        secret["metadata"]["namespace"] = NAMESPACE
        await seam.client.create(seam.cluster, SECRETS, secret)
        await followed.until(lambda _: bool(followed.of(_key(seam, "s"))))
    assert {change.resource for change in followed.changes} == {kind_id(SECRETS)}


async def test_labels_and_fields_without_decoding(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(CONFIG_MAPS, NAMESPACES)
    async with followed.running():
        await followed.feed.synced()
        await _created(seam, "a", labels={"colour": "red"})
        await followed.until(lambda _: bool(followed.of(_key(seam, "a"))))
    (change,) = followed.of(_key(seam, "a"))
    assert label_term("colour", "red") in change.terms
    assert label_term("colour", "blue") not in change.terms
    assert field_term("metadata.name", seam.named("a")) in change.terms
    default = followed.of(ObjectKey(seam.cluster, "", NAMESPACE))[-1]
    assert field_term("status.phase", "Active") in default.terms


async def test_work_at_the_start_comes_after_what_there_is(seam: Seam) -> None:
    await _created(seam, "a")
    followed = seam.feed()
    followed.follow(CONFIG_MAPS)
    seen: list[bool] = []

    async def resume() -> None:
        seen.append(bool(followed.of(_key(seam, "a"))))

    followed.feed.at_start(resume)
    async with followed.running():
        await followed.feed.synced()
        await _created(seam, "b")
        await followed.until(lambda _: bool(followed.of(_key(seam, "b"))) and bool(seen))
    assert seen == [True]


async def test_a_handler_that_fails_does_not_blind_the_others(seam: Seam) -> None:
    followed = seam.feed()

    def broken(_: Change) -> None:
        raise ValueError("a bug")

    followed.feed.on(CONFIG_MAPS, broken)
    followed.follow(CONFIG_MAPS)
    async with followed.running():
        await followed.feed.synced()
        await _created(seam, "a")
        await followed.until(lambda _: bool(followed.of(_key(seam, "a"))))


async def test_kcps_own_kinds(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(WORKSPACES, LOGICAL_CLUSTERS)
    async with followed.running():
        await followed.feed.synced()
        workspace = {"metadata": {"name": seam.named("w")}, "spec": {}}
        await seam.shard.catalog.client.create(seam.cluster, WORKSPACES, workspace)
        key = ObjectKey(seam.cluster, "", seam.named("w"))
        await followed.until(lambda _: bool(followed.of(key)))
        assert followed.of(key)[0].resource == kind_id(WORKSPACES)
        await seam.shard.catalog.client.delete(seam.cluster, WORKSPACES, seam.named("w"))
        await followed.until(lambda _: followed.of(key)[-1].deleted)


# --- what is at hand


async def test_the_lister_has_what_was_told(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(CONFIG_MAPS)
    async with followed.running():
        await followed.feed.synced()
        made = await _created(seam, "a", data={"n": "1"}, labels={"colour": "red"})
        await followed.until(lambda _: bool(followed.of(_key(seam, "a"))))
        lister, name = followed.lister, seam.named("a")
        assert lister.get(seam.cluster, CONFIG_MAPS, name, NAMESPACE) == made
        assert lister.has(seam.cluster, CONFIG_MAPS, name, NAMESPACE)
        assert not lister.has(seam.cluster, CONFIG_MAPS, seam.named("no"), NAMESPACE)
        stored = lister.stored(seam.cluster, CONFIG_MAPS, name, NAMESPACE)
        assert orjson.loads(stored or b"")["data"] == {"n": "1"}
        assert lister.stored(seam.cluster, CONFIG_MAPS, seam.named("no"), NAMESPACE) is None
        ref = ObjectRef(kind_id(CONFIG_MAPS), *_key(seam, "a"))
        assert orjson.loads(lister.value(ref) or b"")["data"] == {"n": "1"}
        assert lister.version(ref) == int(made["metadata"]["resourceVersion"])
        assert _key(seam, "a") in lister.keys(CONFIG_MAPS, seam.cluster)
        assert _key(seam, "a") in lister.keys(CONFIG_MAPS)
        assert len(lister.keys(CONFIG_MAPS, limit=1)) == 1
        gone = ref._replace(name=seam.named("no"))
        assert (lister.value(gone), lister.version(gone)) == (None, None)


async def test_the_lister_counts_and_reads_in_pages(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(CONFIG_MAPS)
    async with followed.running():
        await followed.feed.synced()
        for name in ("a", "b"):
            await _created(seam, name, labels={"colour": "red"})
        await followed.until(lambda _: bool(followed.of(_key(seam, "b"))))
        resource, lister = kind_id(CONFIG_MAPS), followed.lister
        selector = f"test={seam.prefix}"
        assert await lister.count(resource, seam.cluster, NAMESPACE, labels=selector) == 2
        total = await lister.count(resource, seam.cluster, NAMESPACE)
        assert await lister.count(resource) >= total >= 2
        found = [
            one.name
            async for page in lister.metadata_of(resource, seam.cluster, NAMESPACE)
            for one in page
        ]
        assert len(found) == total
        assert found == sorted(found)
        assert {seam.named("a"), seam.named("b")} <= set(found)
        values = [v async for page in lister.values_of(resource, seam.cluster) for v in page]
        assert len(values) >= total


async def test_the_lister_finds_by_index(seam: Seam) -> None:
    followed = seam.feed()
    followed.follow(CONFIG_MAPS)
    async with followed.running():
        await followed.feed.synced()
        uid = f"uid-of-{seam.prefix}"
        for name in ("a", "b", "c"):
            obj = seam.config_map(name)
            owner = {"apiVersion": "v1", "kind": "Unserved", "name": "o", "uid": uid}
            obj["metadata"]["ownerReferences"] = [owner]
            obj["metadata"]["finalizers"] = ["example.com/wait"]
            await seam.client.create(seam.cluster, CONFIG_MAPS, obj)
        await followed.until(lambda _: bool(followed.of(_key(seam, "c"))))
        index, lister = owner_entry(seam.cluster, uid), followed.lister
        refs = [ObjectRef(kind_id(CONFIG_MAPS), *_key(seam, name)) for name in "abc"]
        assert lister.find(index) == refs
        assert lister.find(index, CONFIG_MAPS) == refs
        assert lister.find(index, CONFIG_MAPS, limit=2) == refs[:2]
        assert lister.find(index, CONFIG_MAPS, after=refs[1]) == refs[2:]
        await seam.client.delete(seam.cluster, CONFIG_MAPS, seam.named("b"), NAMESPACE)
        await followed.until(lambda _: len(followed.of(_key(seam, "b"))) >= 2)
        assert refs[1] in lister.find(DELETING, CONFIG_MAPS)
        assert refs[0] not in lister.find(DELETING, CONFIG_MAPS)
