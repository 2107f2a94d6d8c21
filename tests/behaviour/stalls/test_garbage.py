"""What a request brought is let go of when it is answered, not when garbage is next collected."""

from __future__ import annotations

import asyncio
import gc
import pathlib
from collections.abc import Iterator

import pytest

from pykcp.aio.garbage import Collector
from pykcp.programs.shard.process import running_shard
from pykcp.server.call import Call
from pykcp.testing.client import TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.programs import shard_settings
from pykcp.wire.http1.driver import Http1Driver

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def no_collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither by the interpreter nor by the server."""
    monkeypatch.setattr(Collector, "tick", lambda *_args, **_named: None)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _garbage() -> list[object]:
    """What waits for a collection."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = list(gc.garbage)
    gc.garbage.clear()
    return found


def _write(kubeconfig: pathlib.Path) -> list[int]:
    client = TestClient(read_access(kubeconfig, "shard-base"), "root")
    body = {"metadata": {"name": "x"}, "data": {"text": "a"}}
    stale = {**body, "metadata": {"name": "x", "resourceVersion": "1"}}
    statuses = [
        client.post(CONFIG_MAPS, body).status,
        client.post(CONFIG_MAPS, body).status,
        client.put(f"{CONFIG_MAPS}/x", {**body, "data": {"text": "b" * 100_000}}).status,
        client.put(f"{CONFIG_MAPS}/x", stale).status,
        client.patch(f"{CONFIG_MAPS}/x", {"data": {"text": "c"}}).status,
        client.delete(f"{CONFIG_MAPS}/x").status,
    ]
    client.close()
    return statuses


def _bad_writes(kubeconfig: pathlib.Path) -> list[int]:
    """What worker processes refuse, on connections that are closed afterwards."""
    statuses = []
    for _ in range(5):
        client = TestClient(read_access(kubeconfig, "shard-base"), "root")
        large = {"metadata": {"name": "Not A Name"}, "data": {"text": "b" * 100_000}}
        statuses.append(client.post(CONFIG_MAPS, large).status)
        statuses.append(client.post(CONFIG_MAPS, {**large, "data": ["b" * 100_000]}).status)
        client.close()
        stranger = TestClient(read_access(kubeconfig, "shard-base"), "root:nowhere")
        statuses.append(stranger.post(CONFIG_MAPS, large).status)
        stranger.close()
    return statuses


def _drivers() -> list[object]:
    """Connections that exist; other tests of this process may have left some."""
    return [o for o in gc.get_objects() if isinstance(o, Http1Driver)]


async def test_refusals_and_closed_connections_are_no_garbage(
    tmp_path: pathlib.Path, no_collections: None
) -> None:
    known = _drivers()  # kept, so that no other object gets the identity of one of them
    async with running_shard(shard_settings(tmp_path / ".kcp")):
        gc.unfreeze()
        _garbage()
        statuses = await asyncio.to_thread(_bad_writes, tmp_path / ".kcp" / "admin.kubeconfig")
        assert statuses == [422, 400, 404] * 5
        async with asyncio.timeout(20):
            while len(_drivers()) > len(known):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # until the server has seen the end of the last one
        found = [type(o).__name__ for o in _garbage()]
    assert {"Call", "Http1Driver", "Connection", "JobResult", "Sent"}.isdisjoint(found)


async def test_bodies_need_no_garbage_collector(
    tmp_path: pathlib.Path, no_collections: None
) -> None:
    async with running_shard(shard_settings(tmp_path / ".kcp")):
        statuses = await asyncio.to_thread(_write, tmp_path / ".kcp" / "admin.kubeconfig")
        assert statuses == [201, 409, 200, 409, 200, 200]
        left = [o for o in gc.get_objects() if isinstance(o, Call)]
        assert [c.info.verb for c in left if c.exchange.request.body] == []
        assert len(left) < len(statuses)
