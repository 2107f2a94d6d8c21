"""Reading and writing: what both clients promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykcp.clients.interface import JSON_PATCH
from pykcp.machinery.resources import CONFIG_MAPS, NAMESPACES, GroupVersionResource
from pykcp.machinery.status import AlreadyExists, Conflict, Invalid, NotFound, StatusError

from .conftest import MANAGER, NAMESPACE

if TYPE_CHECKING:
    from pykcp.types import Object

    from .conftest import Seam

pytestmark = pytest.mark.asyncio(loop_scope="session")
QUOTAS = GroupVersionResource("", "v1", "resourcequotas")


async def _created(seam: Seam, name: str, **more: object) -> Object:
    return await seam.client.create(seam.cluster, CONFIG_MAPS, seam.config_map(name, **more))


async def test_get(seam: Seam) -> None:
    made = await _created(seam, "a", data={"k": "v"})
    found = await seam.client.get(seam.cluster, CONFIG_MAPS, seam.named("a"), NAMESPACE)
    assert found == made
    assert (found["kind"], found["apiVersion"], found["data"]) == ("ConfigMap", "v1", {"k": "v"})


async def test_get_of_what_is_not_there(seam: Seam) -> None:
    assert await seam.client.get(seam.cluster, CONFIG_MAPS, seam.named("no"), NAMESPACE) is None


async def test_get_of_a_kind_that_is_not_served(seam: Seam) -> None:
    kind = GroupVersionResource("nowhere.example.com", "v1", "things")
    with pytest.raises(NotFound):
        await seam.client.get(seam.cluster, kind, "one")


async def test_list_with_selectors(seam: Seam) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        await _created(seam, name, labels={"colour": colour})
    selector = f"test={seam.prefix},colour=red"
    found = await seam.client.list(seam.cluster, CONFIG_MAPS, NAMESPACE, labels=selector)
    assert [obj["metadata"]["name"] for obj in found] == [seam.named("a"), seam.named("c")]
    assert {obj["kind"] for obj in found} == {"ConfigMap"}
    everywhere = await seam.client.list(
        "*", CONFIG_MAPS, labels=selector, fields=f"metadata.name={seam.named('c')}"
    )
    assert [obj["metadata"]["name"] for obj in everywhere] == [seam.named("c")]


async def test_pages(seam: Seam) -> None:
    names = [seam.named(f"{number:02}") for number in range(7)]
    for number in range(7):
        await _created(seam, f"{number:02}", labels={})
    selector = f"test={seam.prefix}"
    pages = [
        [obj["metadata"]["name"] for obj in page]
        async for page in seam.client.pages(
            seam.cluster, CONFIG_MAPS, NAMESPACE, labels=selector, size=3
        )
    ]
    assert [name for page in pages for name in page] == names
    assert max(map(len, pages)) == 3
    assert all(pages)


async def test_metadata(seam: Seam) -> None:
    made = await _created(seam, "a", data={"k": "v"})
    found = [
        one
        async for page in seam.client.metadata(seam.cluster, CONFIG_MAPS, NAMESPACE, size=2)
        for one in page
        if one.name == seam.named("a")
    ]
    assert [one.uid for one in found] == [made["metadata"]["uid"]]
    assert found[0].resource_version == made["metadata"]["resourceVersion"]


async def test_create_of_what_exists(seam: Seam) -> None:
    await _created(seam, "a")
    with pytest.raises(AlreadyExists) as refused:
        await _created(seam, "a")
    assert str(refused.value) == f'configmaps "{seam.named("a")}" already exists'
    assert (refused.value.kind, refused.value.name) == ("configmaps", seam.named("a"))


async def test_create_of_what_is_invalid(seam: Seam) -> None:
    obj = seam.config_map("a")
    obj["metadata"]["name"] = "Not A Name"
    with pytest.raises(Invalid) as refused:
        await seam.client.create(seam.cluster, CONFIG_MAPS, obj)
    assert [cause.field for cause in refused.value.causes] == ["metadata.name"]


async def test_fields_belong_to_the_clients_manager(seam: Seam) -> None:
    made = await _created(seam, "a", data={"k": "v"})
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == [MANAGER]


async def test_update_and_its_conflict(seam: Seam) -> None:
    made = await _created(seam, "a", data={"n": "1"})
    second = await seam.client.update(seam.cluster, CONFIG_MAPS, {**made, "data": {"n": "2"}})
    assert second["data"] == {"n": "2"}
    with pytest.raises(Conflict):
        await seam.client.update(seam.cluster, CONFIG_MAPS, {**made, "data": {"n": "3"}})
    found = await seam.client.get(seam.cluster, CONFIG_MAPS, seam.named("a"), NAMESPACE)
    assert found == second


async def test_change_reads_again_after_a_conflict(seam: Seam) -> None:
    made = await _created(seam, "a", data={"n": "0"})
    rivals = LocalRival(seam, made)
    seen: list[str] = []

    def count(live: Object) -> None:
        seen.append(live["data"]["n"])
        live["data"]["n"] = str(int(live["data"]["n"]) + 1)

    await rivals.write("5")
    written = await seam.client.change(seam.cluster, CONFIG_MAPS, seam.named("a"), count, NAMESPACE)
    assert (written["data"], seen[-1]) == ({"n": "6"}, "5")


class LocalRival:
    """Somebody else who writes the same object."""

    def __init__(self, seam: Seam, obj: Object) -> None:
        self._seam, self._obj = seam, obj

    async def write(self, number: str) -> None:
        changed = {**self._obj, "data": {"n": number}}
        await self._seam.shard.catalog.client.update(self._seam.cluster, CONFIG_MAPS, changed)


async def test_change_of_what_is_not_there(seam: Seam) -> None:
    with pytest.raises(NotFound) as refused:
        await seam.client.change(
            seam.cluster, CONFIG_MAPS, seam.named("no"), lambda _: None, NAMESPACE
        )
    assert str(refused.value) == f'configmaps "{seam.named("no")}" not found'


async def test_what_a_change_raises_is_passed_on(seam: Seam) -> None:
    await _created(seam, "a")

    def refuse(_: Object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await seam.client.change(seam.cluster, CONFIG_MAPS, seam.named("a"), refuse, NAMESPACE)


async def test_merge_patch(seam: Seam) -> None:
    await _created(seam, "a", data={"keep": "1", "drop": "2"})
    patch = {"data": {"drop": None, "new": "3"}}
    written = await seam.client.patch(seam.cluster, CONFIG_MAPS, seam.named("a"), patch, NAMESPACE)
    assert written["data"] == {"keep": "1", "new": "3"}


async def test_json_patch(seam: Seam) -> None:
    await _created(seam, "a", data={"n": "1"})
    patch = [
        {"op": "test", "path": "/data/n", "value": "1"},
        {"op": "replace", "path": "/data/n", "value": "2"},
    ]
    written = await seam.client.patch(
        seam.cluster, CONFIG_MAPS, seam.named("a"), patch, NAMESPACE, form=JSON_PATCH
    )
    assert written["data"] == {"n": "2"}
    with pytest.raises(StatusError) as refused:
        await seam.client.patch(
            seam.cluster, CONFIG_MAPS, seam.named("a"), patch, NAMESPACE, form=JSON_PATCH
        )
    assert refused.value.code == 422


async def test_json_patch_of_the_annotations_that_are_read(seam: Seam) -> None:
    await _created(seam, "a", data={"n": "1"})
    patch = [{"op": "add", "path": "/metadata/annotations/note", "value": "1"}]
    written = await seam.client.patch(
        seam.cluster, CONFIG_MAPS, seam.named("a"), patch, NAMESPACE, form=JSON_PATCH
    )
    assert written["metadata"]["annotations"]["note"] == "1"


async def test_patch_of_what_is_not_there(seam: Seam) -> None:
    with pytest.raises(NotFound):
        await seam.client.patch(seam.cluster, CONFIG_MAPS, seam.named("no"), {}, NAMESPACE)


async def test_apply_creates_and_changes(seam: Seam) -> None:
    wanted = seam.config_map("a", data={"n": "1"})
    await seam.client.apply(seam.cluster, CONFIG_MAPS, wanted)
    written = await seam.client.apply(seam.cluster, CONFIG_MAPS, {**wanted, "data": {"m": "2"}})
    assert written["data"] == {"m": "2"}
    owners = [(o["manager"], o["operation"]) for o in written["metadata"]["managedFields"]]
    assert owners == [(MANAGER, "Apply")]


async def test_apply_takes_others_fields_by_force_only(seam: Seam) -> None:
    made = await seam.shard.catalog.client.create(
        seam.cluster, CONFIG_MAPS, seam.config_map("a", data={"n": "1"})
    )
    assert made["data"] == {"n": "1"}
    wanted = seam.config_map("a", data={"n": "2"})
    with pytest.raises(Conflict) as refused:
        await seam.client.apply(seam.cluster, CONFIG_MAPS, wanted)
    assert [cause.field for cause in refused.value.causes] == [".data.n"]
    written = await seam.client.apply(seam.cluster, CONFIG_MAPS, wanted, force=True)
    assert written["data"] == {"n": "2"}


async def test_delete(seam: Seam) -> None:
    await _created(seam, "a")
    where = (seam.cluster, CONFIG_MAPS, seam.named("a"), NAMESPACE)
    assert await seam.client.delete(*where)
    assert await seam.client.get(*where) is None
    assert not await seam.client.delete(*where)


@pytest.mark.parametrize("condition", ["uid", "resource_version"])
async def test_delete_of_another_than_was_meant(seam: Seam, condition: str) -> None:
    made = await _created(seam, "a", data={"n": "1"})
    where = (seam.cluster, CONFIG_MAPS, seam.named("a"), NAMESPACE)
    wrong = {"uid": "another", "resource_version": "1"}[condition]
    with pytest.raises(Conflict):
        await seam.client.delete(*where, **{condition: wrong})
    assert await seam.client.get(*where) == made
    metadata = made["metadata"]
    right = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}[condition]
    assert await seam.client.delete(*where, **{condition: right})


async def test_delete_collection(seam: Seam) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        await _created(seam, name, labels={"colour": colour})
    selector = f"test={seam.prefix}"
    await seam.client.delete_collection(
        seam.cluster, CONFIG_MAPS, NAMESPACE, labels=f"{selector},colour=red"
    )
    left = await seam.client.list(seam.cluster, CONFIG_MAPS, NAMESPACE, labels=selector)
    assert [obj["metadata"]["name"] for obj in left] == [seam.named("b")]


async def test_status_is_written_on_its_own(seam: Seam) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": seam.named("q"), "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "7"}},
    }
    made = await seam.client.create(seam.cluster, QUOTAS, quota)

    def use(live: Object) -> None:
        live["spec"]["hard"] = {"pods": "100"}  # which a write of the status leaves alone
        live["status"] = {"hard": {"pods": "7"}, "used": {"pods": "3"}}

    written = await seam.client.change(
        seam.cluster, QUOTAS, seam.named("q"), use, NAMESPACE, "status"
    )
    assert written["status"]["used"] == {"pods": "3"}
    assert written["spec"] == made["spec"]
    applied = {**quota, "status": {"used": {"services": "1"}}}
    applied.pop("spec")
    written = await seam.client.apply(seam.cluster, QUOTAS, applied, "status")
    assert written["status"]["used"] == {"pods": "3", "services": "1"}


async def test_cluster_scoped_objects_and_wildcard(seam: Seam) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": seam.named("n")}}
    made = await seam.client.create(seam.cluster, NAMESPACES, namespace)
    found = await seam.client.list("*", NAMESPACES, fields=f"metadata.name={seam.named('n')}")
    assert [one["metadata"]["uid"] for one in found] == [made["metadata"]["uid"]]
    assert found[0]["metadata"]["annotations"]["kcp.io/cluster"] == seam.cluster
    pages = [page async for page in seam.client.pages("*", NAMESPACES, size=1)]
    assert {len(page) for page in pages} == {1}
    clusters = {page[0]["metadata"]["annotations"]["kcp.io/cluster"] for page in pages}
    assert len(clusters) > 1
