"""`pykcp.client.adapters`: one workspace, read by every client, also with a credential plugin."""

from __future__ import annotations

import asyncio
import json
import pathlib
import tempfile
from typing import Any

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
    kubeconfig,
)

DATA = {"seen": "by all"}


async def main() -> None:
    async with connect() as kcp:
        workspace = kcp.current
        await workspace.objects("cm").apply({"metadata": {"name": "shared"}, "data": DATA})
        await check(workspace)
        with tempfile.TemporaryDirectory() as folder:
            path = with_plugin(kubeconfig(workspace), pathlib.Path(folder))
            async with connect(path) as renewing:
                await check(renewing.current)


def with_plugin(document: Any, folder: pathlib.Path) -> pathlib.Path:
    """The same kubeconfig, whose token comes from a program."""
    (user,) = document["users"]
    version = "client.authentication.k8s.io/v1beta1"  # lightkube does not know v1 yet
    status = {"token": user["user"]["token"]}
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    program = folder / "login"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    user["user"] = {
        "exec": {"apiVersion": version, "command": "./login", "interactiveMode": "Never"}
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


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
    assert info.token


asyncio.run(main())
