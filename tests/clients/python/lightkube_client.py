"""`lightkube`, its blocking and its asyncio client: verbs, watch, patches, apply, errors."""

# ruff: noqa: PT017 -- a program of its own, without pytest

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from lightkube import ApiError, AsyncClient, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType

NAMESPACE = os.environ["TEST_NAMESPACE"]


def refused(code: int, reason: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except ApiError as error:
        assert (error.status.code, error.status.reason) == (code, reason), error.status
        return
    raise AssertionError(f"not refused with {code}")


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels={"app": "light"}), data=data
    )


def everyday_work(client: Client) -> None:
    made = client.create(config_map("one", colour="blue"))
    refused(409, "AlreadyExists", lambda: client.create(config_map("one")))
    made.data["colour"] = "red"
    assert client.replace(made).data == {"colour": "red"}
    refused(409, "Conflict", lambda: client.replace(made))
    merged = client.patch(ConfigMap, "one", {"data": {"size": "big"}})
    assert merged.data == {"colour": "red", "size": "big"}
    steps = [{"op": "remove", "path": "/data/size"}]
    assert client.patch(ConfigMap, "one", steps, patch_type=PatchType.JSON).data == {
        "colour": "red"
    }
    merged = client.patch(ConfigMap, "one", {"data": None}, patch_type=PatchType.MERGE)
    assert not merged.data
    labelled = list(client.list(ConfigMap, labels={"app": "light"}, chunk_size=1))
    assert [item.metadata.name for item in labelled] == ["one"]
    client.delete(ConfigMap, "one", cascade=CascadeType.BACKGROUND)
    refused(404, "NotFound", lambda: client.get(ConfigMap, "one"))


def apply(client: Client) -> None:
    assert client.apply(config_map("applied", a="1"), field_manager="one").data == {"a": "1"}
    other = config_map("applied", a="2")
    refused(409, "Conflict", lambda: client.apply(other, field_manager="two"))
    assert client.apply(other, field_manager="two", force=True).data == {"a": "2"}
    client.delete(ConfigMap, "applied")


def generic(client: Client) -> None:
    leases = create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
    lease = leases(metadata={"name": "mine", "namespace": NAMESPACE}, spec={"holderIdentity": "me"})
    client.create(lease)
    assert client.get(leases, "mine").spec["holderIdentity"] == "me"
    assert NAMESPACE in [item.metadata.name for item in client.list(Namespace)]


async def follow() -> None:
    client = AsyncClient(namespace=NAMESPACE)
    made = await client.create(config_map("seen", step="1"))
    seen = []
    async for event, _ in client.watch(
        ConfigMap, fields={"metadata.name": "seen"}, resource_version=made.metadata.resourceVersion
    ):
        seen.append(event)
        if event == "DELETED":
            break
    assert seen == ["MODIFIED", "DELETED"], seen
    await client.close()


async def change() -> None:
    client = AsyncClient(namespace=NAMESPACE)
    while True:
        try:
            await client.patch(ConfigMap, "seen", {"data": {"step": "2"}})
            break
        except ApiError as error:
            assert error.status.code == 404
            await asyncio.sleep(0.05)
    await client.delete(ConfigMap, "seen")
    await client.close()


async def follow_and_change() -> None:
    await asyncio.wait_for(asyncio.gather(follow(), change()), 30)


def main() -> None:
    client = Client(namespace=NAMESPACE)
    everyday_work(client)
    apply(client)
    generic(client)
    asyncio.run(follow_and_change())


main()
