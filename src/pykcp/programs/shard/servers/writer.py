"""The writer's side: it starts followers, gives them connections and tells them of revisions.

All connections are accepted here and given to the process that has the fewest, which may be this
one. A follower that ends is started again, at once the first time and later after a pause that
grows. When this process ends, however it ends, its followers see it and end.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pykcp.aio.owner import TaskOwner
from pykcp.aio.timers import call_later
from pykcp.auth.kubeconfig import AdminTokens
from pykcp.observe.merging import merged
from pykcp.observe.metrics import Gauge, Registry
from pykcp.programs.shard.servers.channel import MessageKind, ProcessChannel, channel_pair
from pykcp.programs.shard.servers.handover import HandedRequests
from pykcp.programs.shard.settings import ShardSettings
from pykcp.storage.progress import LogProgress, SharedWords
from pykcp.wire.accepting import Acceptor
from pykcp.wire.exchange import Application
from pykcp.wire.listener import Listener
from pykcp.wire.settings import WireSettings

_log = logging.getLogger(__name__)

STORE, CACHE = 0, 1
"""The logs that are followed."""
_LOGS = 2
_COUNTS = 2
"""Words of each follower: how many connections it has been given, and how many are open."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_STEADY_SECONDS = 30.0
"""A follower that has run so long is started again without a pause."""
_HOLD_SECONDS = 2.0
"""How long a checkpoint waits for the scans of followers: one that is stopped must not block it."""
_METRICS_SECONDS = 5.0
_CLOSING_SECONDS = 2.0
"""What a follower needs to end, after the time for requests in progress …"""
_EXIT_SECONDS = 5.0
"""… and its process, once it has closed the channel."""
_MANY = 1 << 30
HANDED_OVER = WireSettings(
    max_concurrent_streams=100_000,
    max_connections_per_address=10_000,
    max_handshakes_per_address=10_000,
    max_buffered_per_connection=_MANY,
    max_buffered_bodies=_MANY,
    max_buffered_per_address=_MANY,
    max_buffered_unknown=_MANY,
    connection_window=16 << 20,
    reset_burst=_MANY,
    reset_rate=_MANY,
    idle_frame_burst=_MANY,
    idle_frame_rate=_MANY,
    idle_timeout=3600.0,
)
"""Of connections from followers, which apply the limits of the operator to each client."""


@dataclass(frozen=True, slots=True)
class FollowerStart:
    """What a follower is given when it is started."""

    settings: ShardSettings
    number: int
    channel: int
    words: int
    processes: int
    port: int
    tokens: AdminTokens
    seal: bytes
    """The key of the cache's file."""


def with_shared_log(settings: ShardSettings, *, rotates: bool) -> ShardSettings:
    """Settings of a process whose audit log others write to."""
    audit = settings.audit.audit
    log = replace(audit.log, is_shared=True, rotates=rotates)
    return settings.replace(audit=settings.audit.replace(audit=replace(audit, log=log)))


def shared_words(descriptor: int, processes: int) -> SharedWords:
    return SharedWords(descriptor, _word_count(processes))


def _word_count(processes: int) -> int:
    return _LOGS * LogProgress.SIZE + processes * _COUNTS


class ConnectionCounts:
    """The connections of one follower, in shared memory."""

    def __init__(self, words: SharedWords, number: int) -> None:
        self._words = words.view
        self._first = _LOGS * LogProgress.SIZE + number * _COUNTS

    def reset(self) -> None:
        self._words[self._first] = self._words[self._first + 1] = 0

    def note_given(self) -> None:
        self._words[self._first] += 1

    def note_open(self, count: int) -> None:
        self._words[self._first + 1] = count

    @property
    def given(self) -> int:
        return self._words[self._first]

    @property
    def open(self) -> int:
        return self._words[self._first + 1]


class FollowerProcess:
    """One follower, from its start to its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        end: socket.socket,
        counts: ConnectionCounts,
        owner: ServingProcesses,
    ) -> None:
        self._process, self.counts = process, counts
        self._owner = owner
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_ready = False
        self._sent = 0
        self.channel = ProcessChannel(end, self._received, self._channel_ended)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def load(self) -> int:
        """Its connections, with those that are on their way."""
        return self.counts.open + self._sent - self.counts.given

    def give(self, client: socket.socket) -> bool:
        is_sent = self.channel.send(MessageKind.CLIENT, client)
        self._sent += is_sent
        return is_sent

    async def metrics(self) -> str:
        """Its metrics, "" if it does not send them in time."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            with theirs:
                if not self.channel.send(MessageKind.METRICS, theirs):
                    return ""
            async with asyncio.timeout(_METRICS_SECONDS):
                return (await reader.read()).decode()
        except (OSError, TimeoutError) as error:
            _log.warning("follower %d does not send its metrics: %s", self.pid, error)
            return ""
        finally:
            writer.close()

    def stop(self) -> None:
        """Let it finish what is in progress; it is told again if it has too many messages."""
        if not self.ended.done() and not self.channel.send(MessageKind.STOP):
            call_later(0.05, self.stop)

    async def wait(self, seconds: float) -> int:
        """Until it has ended, by force if it takes too long; its exit code."""
        await asyncio.wait([self.ended], timeout=seconds)  # others wait for the same future
        if not self.ended.done():
            _log.warning("follower %d does not end and is killed", self.pid)
            self._process.kill()
        return await asyncio.to_thread(self._exit_code)

    def _exit_code(self) -> int:
        """In a thread."""
        try:
            return self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _received(self, kind: MessageKind, sockets: Sequence[socket.socket]) -> None:
        if kind is MessageKind.READY:
            self.is_ready = True
            _log.info("follower %d is ready", self.pid)
        elif kind is MessageKind.WRITER:
            self._owner.accept_handed(sockets[0])
        elif kind is MessageKind.HELD:
            self._owner.note_held(self)

    def _channel_ended(self) -> None:
        self.is_ready = False
        if not self.ended.done():
            self.ended.set_result(None)
        self._owner.note_held(self)


class SharedLog:
    """A log that followers follow, as the store sees it."""

    def __init__(self, progress: LogProgress, owner: ServingProcesses) -> None:
        self._progress, self._owner = progress, owner

    def announce(self, revision: int) -> None:
        self._progress.revision = revision
        self._owner.tell(MessageKind.REVISION)

    def announce_compaction(self, revision: int) -> None:
        self._progress.compacted = revision

    def announce_adoption(self, since: int) -> None:
        self._progress.note_adoption(since)

    def drain(self, drained: Callable[[], None]) -> None:
        self._owner.hold_scans(drained)

    def resume(self) -> None:
        self._owner.tell(MessageKind.RESUME)


class _Hold:
    """Waits for the scans of some followers to end."""

    def __init__(self, waited_for: set[FollowerProcess], held: Callable[[], None]) -> None:
        self._waited_for, self._held = waited_for, held
        self._timer = call_later(_HOLD_SECONDS, self._give_up) if waited_for else None
        self.is_over = False

    def note(self, follower: FollowerProcess | None = None) -> None:
        if follower is not None:
            self._waited_for.discard(follower)
        if not self._waited_for and not self.is_over:
            self.is_over = True
            if self._timer is not None:
                self._timer.cancel()
            self._held()

    def _give_up(self) -> None:
        """Somebody does not answer, and nothing else may come that could end this."""
        self._waited_for.clear()
        self.note()


class ServingProcesses:
    """All followers of this process."""

    def __init__(self, settings: ShardSettings) -> None:
        self._settings = settings
        self.count = settings.serving.serving_processes - 1
        """Followers that are to run."""
        self._words = SharedWords.create(_word_count(self.count))
        self.logs = [SharedLog(LogProgress(self._words, log), self) for log in range(_LOGS)]
        self._followers: dict[int, FollowerProcess] = {}
        self._holds: list[_Hold] = []
        self._owner = TaskOwner("serving-processes")
        self._stopping = asyncio.Event()
        self.restarts = 0
        self._own: Listener | None = None
        self._handed: Listener | None = None
        self._acceptor = Acceptor(self._place)

    def listen(self, own: Listener, front: Application, host: str, port: int) -> None:
        """Accept connections: for `own` until there are followers."""
        self._own = own
        self._handed = Listener(HandedRequests(front), HANDED_OVER)
        own.open()
        self._handed.open()
        self._acceptor.start(host, port)
        own.port = self._acceptor.port

    def start(self, tokens: AdminTokens, seal: bytes) -> None:
        """Start the followers, once there is a store to follow."""
        for number in range(self.count):
            run = partial(self._keep_running, number, tokens, seal)
            self._owner.start_restartable(f"follower-{number + 1}", run)

    @property
    def ready(self) -> list[FollowerProcess]:
        return [each for each in self._followers.values() if each.is_ready]

    # -- connections

    def _place(self, client: socket.socket) -> None:
        """Give a connection to the process that has the fewest."""
        assert self._own is not None
        follower = min(self.ready, key=lambda each: each.load, default=None)
        is_less_loaded = follower is not None and follower.load <= self._own.connection_count
        if follower is not None and is_less_loaded and follower.give(client):
            client.close()
            return
        self._own.adopt(client)

    def accept_handed(self, connection: socket.socket) -> None:
        """Serve a follower's connection for requests that it hands over."""
        assert self._handed is not None
        self._handed.adopt(connection)

    # -- metrics

    def show(self, metrics: Registry) -> None:
        metrics.add(
            Gauge(
                "pykcp_serving_processes",
                "Processes that serve requests, this one included.",
                lambda: 1 + len(self.ready),
            ),
            Gauge(
                "pykcp_serving_process_restarts_total",
                "Followers that ended and were started again.",
                lambda: self.restarts,
            ),
        )
        metrics.gather = self._gather

    async def _gather(self, own: str) -> str:
        """The metrics of all processes; one that does not answer is left out."""
        ready = [(n, each) for n, each in self._followers.items() if each.is_ready]
        texts = await asyncio.gather(*(each.metrics() for _, each in ready))
        named = ((f"follower-{n + 1}", text) for (n, _), text in zip(ready, texts, strict=True))
        return merged([("writer", own), *(one for one in named if one[1])])

    # -- what followers are told

    def tell(self, kind: MessageKind) -> None:
        for each in self._followers.values():
            # One that takes no more messages has earlier ones to read, after which it looks itself.
            each.channel.send(kind)

    def hold_scans(self, held: Callable[[], None]) -> None:
        waited_for = {each for each in self.ready if each.channel.send(MessageKind.HOLD)}
        hold = _Hold(waited_for, held)
        self._holds.append(hold)
        self.note_held(None)

    def note_held(self, follower: FollowerProcess | None) -> None:
        for hold in self._holds:
            hold.note(follower)
        self._holds = [hold for hold in self._holds if not hold.is_over]

    # -- processes

    async def _keep_running(self, number: int, tokens: AdminTokens, seal: bytes) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            follower = self._start(number, tokens, seal)
            self._followers[number] = follower
            try:
                await follower.ended
                code = await follower.wait(_FIRST_PAUSE)
            finally:
                self._followers.pop(number, None)
            if self._stopping.is_set():
                return
            is_steady = time.monotonic() - began > _STEADY_SECONDS
            pause = 0.0 if is_steady else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            _log.error("follower %d ended (%d); starting another one", follower.pid, code)
            self.restarts += 1
            await asyncio.sleep(pause)

    def _start(self, number: int, tokens: AdminTokens, seal: bytes) -> FollowerProcess:
        assert self._own is not None
        ours, theirs = channel_pair()
        counts = ConnectionCounts(self._words, number)
        counts.reset()
        settings = with_shared_log(self._settings, rotates=False)
        start = FollowerStart(
            settings, number, theirs.fileno(), self._words.descriptor,
            self.count, self._own.port, tokens, seal,
        )  # fmt: skip
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "pykcp.programs.shard.servers.follower"],
                stdin=subprocess.PIPE,
                pass_fds=(theirs.fileno(), self._words.descriptor),
            )
        assert process.stdin is not None
        with process.stdin as pipe:  # some kilobytes: the pipe takes them at once
            pipe.write(pickle.dumps(start))
        return FollowerProcess(process, ours, counts, self)

    def stop_accepting(self) -> None:
        """Accept nothing more; have followers finish what is in progress."""
        self._stopping.set()
        self._acceptor.close()
        for each in self._followers.values():
            each.stop()

    async def stop(self, seconds: float) -> None:
        """Until all followers have ended; requests that they hand over are still answered.

        `seconds`: what is left for these; followers count them on their own, too.
        """
        limit = seconds + _CLOSING_SECONDS
        await asyncio.gather(*(each.wait(limit) for each in [*self._followers.values()]))
        await self._owner.stop()
        if self._handed is not None:
            await self._handed.drain(1.0)

    def close(self) -> None:
        """Only when the stores have stopped: they announce what they commit until then."""
        self._words.close()
