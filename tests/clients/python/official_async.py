"""`kubernetes-asyncio`: everyday verbs, watch, patches, errors, election."""

# ruff: noqa: PT017 -- a program of its own, without pytest

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable
from typing import Any

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client import ApiException
from kubernetes_asyncio.leaderelection import electionconfig, leaderelection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

NAMESPACE = os.environ["TEST_NAMESPACE"]


async def refused(code: int, reason: str, call: Awaitable[Any]) -> None:
    try:
        await call
    except ApiException as error:
        assert (error.status, json.loads(error.body)["reason"]) == (code, reason), error.body
        return
    raise AssertionError(f"not refused with {code}")


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


async def everyday_work(core: client.CoreV1Api) -> None:
    made = await core.create_namespaced_config_map(NAMESPACE, config_map("one", colour="blue"))
    made.data["colour"] = "red"
    await core.replace_namespaced_config_map("one", NAMESPACE, made)
    await refused(409, "Conflict", core.replace_namespaced_config_map("one", NAMESPACE, made))
    merge = "application/merge-patch+json"
    patched = await core.patch_namespaced_config_map(
        "one", NAMESPACE, {"data": {"colour": None, "size": "big"}}, _content_type=merge
    )
    assert patched.data == {"size": "big"}, patched.data
    steps = [{"op": "add", "path": "/data/colour", "value": "green"}]
    patched = await core.patch_namespaced_config_map("one", NAMESPACE, steps)
    assert patched.data == {"size": "big", "colour": "green"}
    listed = await core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=one")
    assert [item.metadata.name for item in listed.items] == ["one"]
    await core.delete_namespaced_config_map("one", NAMESPACE)
    await refused(404, "NotFound", core.read_namespaced_config_map("one", NAMESPACE))
    await refused(422, "Invalid", core.create_namespaced_config_map(NAMESPACE, config_map("A b")))


async def follow(core: client.CoreV1Api) -> None:
    """A watch that is open while things happen."""
    listed = await core.list_namespaced_config_map(NAMESPACE)
    seen = []
    async with watch.Watch() as watcher:
        events = watcher.stream(
            core.list_namespaced_config_map,
            NAMESPACE,
            resource_version=listed.metadata.resource_version,
            timeout_seconds=30,
        )
        writing = asyncio.create_task(write(core))
        async for event in events:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                break
        await writing
    assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")], seen


async def write(core: client.CoreV1Api) -> None:
    made = await core.create_namespaced_config_map(NAMESPACE, config_map("seen"))
    made.data = {"step": "2"}
    await core.replace_namespaced_config_map("seen", NAMESPACE, made)
    await core.delete_namespaced_config_map("seen", NAMESPACE)


async def many_at_once(core: client.CoreV1Api) -> None:
    names = [f"many-{number}" for number in range(50)]
    await asyncio.gather(
        *(core.create_namespaced_config_map(NAMESPACE, config_map(name)) for name in names)
    )
    listed = await core.list_namespaced_config_map(NAMESPACE)
    assert set(names) <= {item.metadata.name for item in listed.items}
    await core.delete_collection_namespaced_config_map(NAMESPACE)


async def election(api: client.ApiClient) -> None:
    leading, done = asyncio.Event(), asyncio.Event()

    async def lead() -> None:
        leading.set()

    async def stop() -> None:
        done.set()

    lock = LeaseLock("election", NAMESPACE, "me", api)
    settings = electionconfig.Config(lock, 6, 4, 1, lead, stop)
    running = asyncio.create_task(leaderelection.LeaderElection(settings).run())
    await asyncio.wait_for(leading.wait(), 20)
    lease = await client.CoordinationV1Api(api).read_namespaced_lease("election", NAMESPACE)
    assert lease.spec.holder_identity == "me"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await everyday_work(core)
        await follow(core)
        await many_at_once(core)
        await election(api)


asyncio.run(main())
