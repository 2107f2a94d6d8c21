"""Verbs on any kind, watches and informers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.aio.owner import spawn
from pykcp.client import Conflict, NotFound, ObjectEvent, Workspace
from pykcp.testing.server import ServerProcess


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_verbs(team: Workspace) -> None:
    maps = team.objects("cm")
    made = await maps.create(config_map("a", x="1"))
    made["data"]["x"] = "2"
    await maps.update(made)
    with pytest.raises(Conflict):
        await maps.update(made)
    await maps.patch("a", {"data": {"y": "1"}})
    await maps.patch("a", [{"op": "remove", "path": "/data/x"}])
    await maps.change("a", lambda obj: obj["data"].update(z="1"))
    assert (await maps.get("a"))["data"] == {"y": "1", "z": "1"}
    await maps.change("a", lambda obj: obj["data"].pop("z"))
    assert (await maps.get("a"))["data"] == {"y": "1"}
    await team.apply(config_map("b", x="1"))
    assert [
        obj["metadata"]["name"] for obj in await maps.list("default", fields="metadata.name=b")
    ] == ["b"]
    assert {obj["kind"] for obj in await maps.list()} == {"ConfigMap"}
    assert await maps.delete("a")
    assert not await maps.delete("a")
    assert await maps.find("a") is None
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await maps.get("a")


@pytest.mark.parametrize(
    "name", ["configmaps", "ConfigMap", "configmap", "cm", "configmaps.v1", "configmaps.v1."]
)
async def test_names_of_kinds(team: Workspace, name: str) -> None:
    assert (await team.objects(name).kind()).kind == "ConfigMap"


async def test_pages(team: Workspace) -> None:
    names = [f"m{number}" for number in range(5)]
    for name in names:
        obj = config_map(name)
        await team.apply({**obj, "metadata": {**obj["metadata"], "labels": {"page": "yes"}}})
    maps = team.objects("configmaps", "default")
    pages = [page async for page in maps.pages(size=2, labels="page=yes")]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert set(names) <= {obj["metadata"]["name"] async for obj in maps}


async def test_a_new_kind_is_found(team: Workspace) -> None:
    """Discovery is read again for a kind that was not there before."""
    with pytest.raises(NotFound):
        await team.objects("widgets").kind()
    await team.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.org"},
            "spec": {
                "group": "example.org",
                "scope": "Cluster",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }
                ],
            },
        }
    )
    await team.objects("crd").wait("widgets.example.org", is_established)
    made = await team.objects("widgets.example.org").apply({"metadata": {"name": "w"}})
    assert made["kind"] == "Widget"


def is_established(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def test_watch(team: Workspace) -> None:
    await team.apply(config_map("a"))
    seen: list[tuple[str, str]] = []
    async for event in team.objects("configmaps").watch("default", fields="metadata.name=a"):
        seen.append((event.type, event.object["metadata"]["name"]))
        if event.type == "ADDED":
            await team.apply(config_map("a", x="1"))
        elif event.type == "MODIFIED":
            await team.objects("configmaps").delete("a")
        else:
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


class Logged(logging.Handler):
    """What is logged, as it is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []
        self.records: asyncio.Queue[logging.LogRecord] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelname)
        self.records.put_nowait(record)

    async def next(self) -> str:
        async with asyncio.timeout(60):
            return (await self.records.get()).getMessage()


@pytest.fixture
def logged() -> Iterator[Logged]:
    handler, log = Logged(), logging.getLogger("pykcp.client")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


async def test_a_lost_server_is_told_once(
    team: Workspace, shard: ServerProcess, logged: Logged
) -> None:
    """However often a watch tries again: one line when it is lost, one when it is back."""
    heard: asyncio.Queue[ObjectEvent] = asyncio.Queue()
    maps = team.objects("configmaps", "default")

    async def follow() -> None:
        async for event in maps.watch(fields="metadata.name=a"):
            heard.put_nowait(event)

    await team.apply(config_map("a"))
    watching = spawn(follow(), name="watch")
    try:
        async with asyncio.timeout(60):
            await heard.get()
            await maps.patch("a", {"data": {"x": "1"}})
            await heard.get()  # not of the list: the watch is open
            shard.kill()
            assert "<Objects configmaps.v1 in root:team-" in await logged.next()
            await asyncio.to_thread(shard.start)
            assert "continued after" in await logged.next()
            await maps.patch("a", {"data": {"x": "2"}})
            assert (await heard.get()).object["data"] == {"x": "2"}
        assert logged.levels == ["WARNING", "INFO"]
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_an_informer_follows(team: Workspace, shard: ServerProcess) -> None:
    """What it missed while the server was away is there afterwards."""
    await team.apply(config_map("a"))
    heard: asyncio.Queue[ObjectEvent] = asyncio.Queue()

    async def next_of(kind: str, name: str) -> None:
        while True:
            event = await heard.get()
            if (event.type, event.object["metadata"]["name"]) == (kind, name):
                return

    async with team.informer("configmaps", "default") as informer:
        informer.on(heard.put_nowait)
        assert informer.get("a", "default") is not None
        shard.kill()
        shard.start()
        await team.objects("cm").get("a")  # a read finds out that the connection is lost
        await team.objects("cm").delete("a")
        await team.apply(config_map("b"))
        async with asyncio.timeout(60):
            await next_of("DELETED", "a")
            await next_of("ADDED", "b")
        assert informer.get("a", "default") is None
        assert {obj["metadata"]["name"] for obj in informer.list()} - {"kube-root-ca.crt"} == {"b"}


async def test_an_informer_of_nothing(team: Workspace) -> None:
    with pytest.raises(NotFound):
        async with team.informer("nosuch"):
            pass
