"""Keeps routes up to date: follows the changes that each shard reports."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

import msgspec

from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.peers import Peers
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.errors import error_of
from pykcp.clients.remote.informer import lines
from pykcp.clients.where import WHERE, RouteChange, decode_change
from pykcp.machinery.status import Expired, StatusError
from pykcp.proxy.routes import RouteTable
from pykcp.proxy.shards import ShardDirectory

_log = logging.getLogger(__name__)

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 5.0
_STEADY = 5.0
_MOST_BYTES = 1 << 20


class ShardStream:
    """The changes of one shard; `run` it."""

    def __init__(self, name: str, connect: Callable[[], RemoteClient], table: RouteTable) -> None:
        self._name, self._connect, self._table = name, connect, table
        self._revision = 0
        """Up to which changes were heard of; 0: none."""
        self.is_live = False
        self._pause = _FIRST_PAUSE

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self._follow()
            except Expired:
                self._revision = 0
            except (StatusError, SendFailed, msgspec.MsgspecError) as error:
                level = logging.DEBUG if self._pause > _FIRST_PAUSE else logging.WARNING
                _log.log(level, "routes of shard %s are not followed: %s", self._name, error)
            finally:
                self.is_live = False
            if time.monotonic() - began > _STEADY:
                self._pause = _FIRST_PAUSE
            await asyncio.sleep(self._pause * (1 - random.random() / 2))  # noqa: S311
            self._pause = min(2 * self._pause, _LAST_PAUSE)

    async def _follow(self) -> None:
        client = self._connect()
        response = await client.http.request(
            "GET", f"{WHERE}?since={self._revision}", client.headers()
        )
        try:
            await self._read(response)
        finally:
            response.close()

    async def _read(self, response: HttpResponse) -> None:
        if response.status != 200:
            raise error_of(response.status, await response.read(_MOST_BYTES))
        if not self._revision:
            self._table.forget_shard(self._name)  # what changed before is not reported
        async for line in lines(response.chunks()):
            self._heard(decode_change(line))

    def _heard(self, change: RouteChange) -> None:
        if change.cluster:
            self._table.change(self._name, change.cluster, change.workspace, change.revision)
        else:
            self.is_live = True  # everything until now has been said
        self._revision = max(self._revision, change.revision)


class RouteFreshness:
    """The streams of all shards, which come and go; `run` it."""

    def __init__(self, shards: ShardDirectory, peers: Peers) -> None:
        self._shards, self._peers = shards, peers
        self._streams: dict[str, tuple[str, ShardStream, TaskOwner]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        shards.on_change = self._changed.set

    def is_live(self, shard: str) -> bool:
        found = self._streams.get(shard)
        return found is not None and found[1].is_live

    def live(self) -> list[str]:
        return [name for name in self._streams if self.is_live(name)]

    async def run(self, table: RouteTable) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._adapt(table)
        finally:
            for name in [*self._streams]:
                await self._stop(name)

    async def _adapt(self, table: RouteTable) -> None:
        """Follow those that there are, at the address that they have now."""
        wanted = {name: self._peers.get(name).base_url for name in self._shards.names()}
        for name in [*self._streams]:
            if self._streams[name][0] != wanted.get(name):
                await self._stop(name)
                table.forget_shard(name)
        for name, url in wanted.items():
            if name not in self._streams:
                self._start(name, url, table)

    def _start(self, name: str, url: str, table: RouteTable) -> None:
        stream = ShardStream(name, lambda: self._peers.client(name), table)
        owner = TaskOwner("routes")
        owner.start_restartable(name, stream.run)
        self._streams[name] = (url, stream, owner)

    async def _stop(self, name: str) -> None:
        _, _, owner = self._streams.pop(name)
        await owner.stop()
