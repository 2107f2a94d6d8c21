"""The program of a follower: the stages of a shard on a store that it only follows.

It has no controllers and writes nothing. It ends when the writer says so, or is gone; signals are
for the writer, which lets all processes finish what is in progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial

from pykcp.aio.owner import spawn_detached
from pykcp.programs.cache.storing import followed_store, sealed
from pykcp.programs.kit.run import loop_factory
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.process import running_shard
from pykcp.programs.shard.servers.channel import MessageKind, ProcessChannel, inherited
from pykcp.programs.shard.servers.follower_requests import FollowerRequests, WriterConnections
from pykcp.programs.shard.servers.writer import (
    CACHE,
    STORE,
    ConnectionCounts,
    FollowerStart,
    shared_words,
)
from pykcp.programs.shard.stages.stores import cache_file, start_store
from pykcp.programs.shard.wiring import Shard
from pykcp.storage.interface import Store
from pykcp.storage.progress import LogProgress
from pykcp.storage.sqlite.following import FollowingStore, LostTrack
from pykcp.wire.exchange import Application

_log = logging.getLogger(__name__)

LOST = 75
"""Exit code of a follower that has to start anew (EX_TEMPFAIL)."""


class running_follower(running_shard):  # noqa: N801  # a context, as the shard
    NAME = "kcp follower"

    def __init__(self, start: FollowerStart) -> None:
        super().__init__(start.settings)
        self._start_values = start
        self._words = shared_words(start.words, start.processes)
        self._counts = ConnectionCounts(self._words, start.number)
        self.stopping = asyncio.Event()
        self._channel = ProcessChannel(inherited(start.channel), self._received, _writer_is_gone)
        self._writer = WriterConnections(self._channel)
        self._followed: list[FollowingStore] = []
        self._held = 0
        self._sending: asyncio.Task[None] | None = None

    async def _open_stores(self) -> tuple[Store, Store]:
        root = self._settings.generic.root_directory
        file = self._settings.store.following(root, LogProgress(self._words, STORE))
        cache = followed_store(root, LogProgress(self._words, CACHE), cache_file(self._settings))
        self._followed = [file.bare, cache]
        for each in self._followed:
            each.on_lost = _lost
        store = await start_store(file.store)
        await cache.start()
        seal = self._start_values.seal
        return store, sealed(cache, seal) if seal else cache

    def _credentials(self) -> Credentials:
        return Credentials(self._settings, self._start_values.tokens)

    def _application(self, shard: Shard) -> Application:
        return FollowerRequests(
            shard.views.front, self._followed, self._writer, shard.api.pods.has_clusters
        )

    async def _listen(self, shard: Shard) -> None:
        self._listener.open(self._counts.note_open)
        self._listener.port = self._start_values.port

    async def _finish_start(self, shard: Shard, credentials: Credentials) -> None:
        """Everything is there already: the writer has made it."""
        for each in self._followed:
            each.on_adopted = partial(shard.stores.hub.end_cluster, "")
        self._locate(shard, credentials)
        self._start_housekeeping(shard)
        self._channel.send(MessageKind.READY)

    async def _stop_stores(self) -> None:
        self._writer.close()
        await super()._stop_stores()

    # -- messages of the writer

    def _received(self, kind: MessageKind, sockets: Sequence[socket.socket]) -> None:
        if kind is MessageKind.CLIENT:
            self._listener.adopt(sockets[0])
            self._counts.note_given()  # it counts as open by now: the writer never misses it
        elif kind is MessageKind.REVISION:
            self._refresh()
        elif kind is MessageKind.METRICS:
            self._sending = spawn_detached(self._send_metrics(sockets[0]), "send-metrics")
        elif kind is MessageKind.HOLD:
            self._held = len(self._followed)
            for each in self._followed:
                each.hold_scans(self._note_held)
        elif kind is MessageKind.RESUME:
            for each in self._followed:
                each.resume_scans()
        elif kind is MessageKind.STOP:
            self.stopping.set()

    async def _send_metrics(self, receiver: socket.socket) -> None:
        receiver.setblocking(False)
        _, writer = await asyncio.open_unix_connection(sock=receiver)
        with contextlib.suppress(ConnectionError):  # the writer does not wait for long
            writer.write(self._shard.base.metrics.exposition().encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def _note_held(self) -> None:
        self._held -= 1
        if self._held == 0:
            self._channel.send(MessageKind.HELD)

    def _refresh(self) -> None:
        """Take new events, which wakes watches; the rest in the next turn of the loop."""
        is_current = [each.refresh() for each in self._followed]
        if not all(is_current):
            asyncio.get_running_loop().call_soon(self._refresh)


def _lost(error: LostTrack) -> None:
    _log.error("this process was stopped for too long and starts anew: %s", error)
    os._exit(LOST)


def _writer_is_gone() -> None:
    """Nothing can be finished without it."""
    _log.error("the process that writes the store has ended; so does this one")
    os._exit(1)


async def _serve(start: FollowerStart) -> None:
    program = running_follower(start)
    async with program:
        await program.stopping.wait()


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    start: FollowerStart = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the parent process
    start.settings.logging.set_up()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
