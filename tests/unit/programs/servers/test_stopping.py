"""How a shard that several processes serve stops: nothing is waited for that cannot come."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal

import pytest

from pykcp.aio.owner import spawn
from pykcp.clients.remote.connect import connect
from pykcp.programs.shard.process import running_shard
from pykcp.programs.shard.servers import writer
from pykcp.programs.shard.settings import ShardSettings
from pykcp.storage.errors import StoreUnavailable
from pykcp.storage.operations import PutKey
from pykcp.storage.values import Value
from pykcp.testing.client import eventually
from pykcp.testing.programs import shard_settings

KEY = "core/configmaps/root/default/again"


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> ShardSettings:
    return shard_settings(tmp_path / ".kcp", "--serving-processes=2")


async def test_what_is_committed_after_the_followers_have_ended_is_announced(
    settings: ShardSettings,
) -> None:
    """Controllers write until the last moment: here, a commit is always under way."""
    program = running_shard(settings)
    shard = await program.__aenter__()
    committed = asyncio.Event()

    async def write() -> None:
        while True:
            await shard.stores.store.write((PutKey(KEY, Value(b'{"rv":"', b'"}')),))
            committed.set()

    writing = spawn(write(), "writing")
    await committed.wait()
    async with asyncio.timeout(30):
        await program.__aexit__(None, None, None)
        with pytest.raises(StoreUnavailable):
            await writing


@pytest.mark.parametrize(
    "target",
    ["/services/where?since=0", "/clusters/root/api/v1/configmaps?watch=true"],
)
async def test_streams_that_begin_while_the_server_stops_end(
    settings: ShardSettings, target: str
) -> None:
    """A connection takes requests for a moment after it has been told to take no more."""
    async with running_shard(settings) as shard:
        kubeconfig = settings.generic.root_directory / "admin.kubeconfig"
        client = connect(str(kubeconfig), "test", "shard-base")
        shard.stores.hub.close()
        shard.views.where.close()
        async with asyncio.timeout(30):
            response = await client.http.request("GET", target, client.headers())
            assert response.status == 200
            await response.read(1 << 20)
        client.http.close()


async def test_a_follower_that_does_not_answer_holds_up_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch, settings: ShardSettings
) -> None:
    monkeypatch.setattr(writer, "_HOLD_SECONDS", 0.01)
    held = asyncio.Event()
    program = running_shard(settings)
    async with program, asyncio.timeout(30):
        processes = program._processes
        assert processes is not None
        (follower,) = await asyncio.to_thread(eventually, lambda: processes.ready)
        os.kill(follower.pid, signal.SIGSTOP)
        try:
            processes.hold_scans(held.set)
            await held.wait()
        finally:
            os.kill(follower.pid, signal.SIGCONT)
