"""What a request brought is let go of when it is answered, not when garbage is next collected."""

from __future__ import annotations

import asyncio
import gc
import pathlib
from collections.abc import Iterator

import pytest

from pykcp.programs.shard.process import running_shard
from pykcp.server.call import Call
from pykcp.testing.client import TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.settings import shard_settings

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


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


async def test_bodies_need_no_garbage_collector(
    tmp_path: pathlib.Path, no_collections: None
) -> None:
    async with running_shard(shard_settings(tmp_path / ".kcp")):
        statuses = await asyncio.to_thread(_write, tmp_path / ".kcp" / "admin.kubeconfig")
        assert statuses == [201, 409, 200, 409, 200, 200]
        left = [o for o in gc.get_objects() if isinstance(o, Call)]
        assert [c.info.verb for c in left if c.exchange.request.body] == []
        assert len(left) < len(statuses)
