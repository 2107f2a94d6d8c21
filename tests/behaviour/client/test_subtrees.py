"""All objects of a kind in a workspace and below it, on a shard and behind a front-proxy."""

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pykcp.client import NotFound, ObjectEvent, ObjectInformer, Workspace, connect, place_of
from pykcp.testing.front_proxy import FrontProxyProcess, proxied_shard


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"followed": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def names(informer: ObjectInformer) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in informer.list())


class Following:
    """The events of an informer, which must come; others may come before them."""

    def __init__(self, informer: ObjectInformer) -> None:
        self._heard: asyncio.Queue[ObjectEvent] = asyncio.Queue()
        informer.on(self._heard.put_nowait)

    async def until(self, kind: str, name: str) -> None:
        async with asyncio.timeout(60):
            while True:
                event = await self._heard.get()
                if (event.type, event.object["metadata"]["name"]) == (kind, name):
                    return


async def check(team: Workspace) -> None:
    """What was there, what comes, what changes, what goes; not what is beside it."""
    dev = await team.create("dev")
    beside = await team.create("beside")
    await dev.apply(config_map("below"))
    await beside.apply(config_map("beside"))
    await team.apply(config_map("above"))
    async with dev.informer("configmaps", labels="followed=yes", subtree=True) as informer:
        following = Following(informer)
        assert names(informer) == ["below"]
        deep = await (await dev.create("test")).create("deep")
        await deep.apply(config_map("deep"))
        await following.until("ADDED", "deep")
        await deep.apply(config_map("deep", x="1"))
        await following.until("MODIFIED", "deep")
        cluster = await deep.cluster()
        found = informer.get("deep", "default", cluster)
        assert found is not None
        assert (found["data"], place_of(found).cluster) == ({"x": "1"}, cluster)
        await dev.objects("cm").delete("below")
        await following.until("DELETED", "below")
        assert names(informer) == ["deep"]
        await (dev / "test").delete()
        await following.until("DELETED", "deep")
        assert names(informer) == []
    async with team.informer("cm", "default", labels="followed=yes", subtree=True) as informer:
        assert names(informer) == ["above", "beside"]


async def test_on_a_shard(team: Workspace) -> None:
    await check(team)


async def test_other_kinds(team: Workspace) -> None:
    with pytest.raises(NotFound, match='does not serve "widgets"'):
        async with team.informer("widgets", subtree=True):
            pass
    group = "example.org"
    plural = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"schema": {"openAPIV3Schema": {"type": "object"}}}
    await team.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": plural,
                "versions": [{**version, **schema}],
            },
        }
    )
    await team.objects("crd").wait(f"widgets.{group}", lambda obj: "Established" in str(obj))
    with pytest.raises(NotFound, match='"widgets" has no subtree'):
        async with team.informer("widgets", subtree=True):
            pass


@pytest.fixture(scope="module")
def proxy() -> Iterator[FrontProxyProcess]:
    with proxied_shard() as process:
        yield process


@pytest.fixture
async def proxied(proxy: FrontProxyProcess, tmp_path: pathlib.Path) -> AsyncIterator[Workspace]:
    """A workspace as an administrator sees it through the front-proxy."""
    pair = proxy.files.user("kcp-admin", ["system:kcp:admin"])
    user = {"client-certificate": str(pair), "client-key": str(pair)}
    authority = base64.b64encode(proxy.files.serving_ca.read_bytes()).decode()
    server = f"https://127.0.0.1:{proxy.port}/clusters/root"
    cluster = {"server": server, "certificate-authority-data": authority}
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "clusters": [{"name": "a", "cluster": cluster}],
                "users": [{"name": "a", "user": user}],
            }
        )
    )
    async with connect(path) as kcp:
        yield await kcp.current.create("proxied-")


async def test_behind_a_front_proxy(proxied: Workspace) -> None:
    await check(proxied)
