"""`pykcp.client.adapters`: one workspace, read by every client."""

from __future__ import annotations

import asyncio

import kr8s.asyncio.objects
import kubernetes.client
import kubernetes_asyncio.client
import lightkube
from lightkube.resources.core_v1 import ConfigMap

from pykcp.client import Workspace, connect
from pykcp.client.adapters import (
    for_kopf,
    for_kr8s,
    for_kubernetes,
    for_kubernetes_asyncio,
    for_lightkube,
)

DATA = {"seen": "by all"}


async def main() -> None:
    async with connect() as kcp:
        workspace = kcp.current
        await workspace.objects("cm").apply({"metadata": {"name": "shared"}, "data": DATA})
        await check(workspace)


async def check(workspace: Workspace) -> None:
    official = kubernetes.client.CoreV1Api(for_kubernetes(workspace))
    assert official.read_namespaced_config_map("shared", "default").data == DATA

    async with await for_kubernetes_asyncio(workspace) as api:
        found = await kubernetes_asyncio.client.CoreV1Api(api).read_namespaced_config_map(
            "shared", "default"
        )
        assert found.data == DATA

    light = lightkube.Client(config=for_lightkube(workspace))
    assert light.get(ConfigMap, "shared", namespace="default").data == DATA

    api = await for_kr8s(workspace)
    mine = await kr8s.asyncio.objects.ConfigMap.get("shared", namespace="default", api=api)
    assert dict(mine.raw["data"]) == DATA

    info = for_kopf(workspace)
    assert info.server.endswith(workspace.base)
    assert info.ca_data


asyncio.run(main())
