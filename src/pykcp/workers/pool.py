"""The server's side of worker processes: started for the first job, fair, bounded, stopped when idle.

A worker has one job at a time. Where all are busy, jobs wait in a queue of their tenant, and a
worker that becomes free takes the next tenant's next job in turn. One tenant never has all
workers, so that another's job finds one within a job's time. A job that takes too long is
ended with its process; nothing is lost, since jobs have no effects.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

from pykcp.aio.owner import spawn
from pykcp.aio.timers import call_later
from pykcp.workers.frames import HEADER, Job, JobResult, decode_result, encode
from pykcp.workers.process import WorkerMemoryError

_log = logging.getLogger(__name__)

_PATIENCE = 4
"""How many times its CPU time a job may take: on a busy machine, workers wait for a core."""
_SECONDS_TO_EXIT = 5.0

Charge = Callable[[str, float], None]
"""Called with the tenant and the CPU seconds of every job."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    processes: int = 2
    """Most processes at a time; 0: large work is done on the event loop."""
    idle_seconds: float = 60.0
    """How long a worker without a job is kept; a new one needs half a second of CPU time to start."""
    job_seconds: float = 30.0
    """How much CPU time one job may take."""
    memory: int = 2 << 30
    """Octets of address space that a worker may have."""
    keep_memory: int = 256 << 20
    """A worker that has held more than this is not used again."""


class JobTooLong(Exception):
    """A job was ended because of the time it took."""


class JobTooLarge(Exception):
    """A job was ended because of the memory it needed."""


class WorkerDied(Exception):
    """The process ended in the middle of a job."""


class _Worker:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process, self._reader, self._writer = process, reader, writer
        self.jobs = 0
        self.idle_since = 0.0
        self.is_spent = False
        """Not to be given another job."""

    async def run(self, frame: bytes, seconds: float) -> JobResult:
        """The result of a job. Its process ends itself after so many seconds of CPU time."""
        self.jobs += 1
        try:
            async with asyncio.timeout(seconds * _PATIENCE):
                self._writer.write(frame)
                await self._writer.drain()
                (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                return decode_result(await self._reader.readexactly(size))
        except BaseException as error:
            self.is_spent = True
            if isinstance(error, TimeoutError):
                raise JobTooLong from error
            if isinstance(error, (asyncio.IncompleteReadError, ConnectionError)):
                if await asyncio.to_thread(self._has_used_its_time):
                    raise JobTooLong from error
                raise WorkerDied from error
            raise

    def _has_used_its_time(self) -> bool:
        """Whether the process, which closed its connection, was ended by its timer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_SECONDS_TO_EXIT) == -signal.SIGPROF
        return False

    def stop(self) -> None:
        """The process ends by itself when its connection closes, or by force in a long job."""
        self._writer.close()
        if self.is_spent:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()


class _Tenant:
    __slots__ = ("queue", "running")

    def __init__(self) -> None:
        self.running = 0
        self.queue: deque[asyncio.Future[None]] = deque()


class WorkerPool:
    def __init__(
        self, settings: WorkerSettings | None = None, charge: Charge | None = None
    ) -> None:
        """`charge` is called with a tenant and the seconds of CPU time that its job took."""
        self.settings = settings or WorkerSettings()
        self._charge = charge
        self._idle: list[_Worker] = []
        self._busy = 0
        self._tenants: dict[str, _Tenant] = {}
        self._turns: dict[str, None] = {}
        """Tenants with jobs that wait, whose turn is next first."""
        self._running: set[asyncio.Task[Any]] = set()
        self._ended: list[subprocess.Popen[bytes]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.jobs = 0
        self.cpu_seconds = 0.0
        self.failures = 0
        """Workers that were ended by force or died."""

    @property
    def processes(self) -> int:
        return self._busy + len(self._idle)

    @property
    def waiting(self) -> int:
        return sum(len(tenant.queue) for tenant in self._tenants.values())

    async def run(self, function: str, *args: Any, tenant: str = "") -> Any:
        """The result of `module:name` called with these arguments in a worker; raises its error.

        A caller that gives up does not end the job: its worker finishes first. A job whose worker
        dies is done once more: the system may have ended the process for want of memory.
        """
        try:
            return await self._run_in_turn(function, args, tenant)
        except WorkerDied:
            return await self._run_in_turn(function, args, tenant)

    async def _run_in_turn(self, function: str, args: tuple[Any, ...], tenant: str) -> Any:
        await self._take_turn(tenant)
        # Without the caller's context: a worker, its connection and the timer of the job live longer
        # than the request, and would keep it.
        job = self._run(tenant, encode(Job(function, args)), copy_context())
        task = spawn(job, "worker-job", context=Context())
        self._running.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        finally:
            del task  # its error holds this frame, and that the arguments

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the waiting caller has its result; a cancelled caller does not need it

    async def _run(self, tenant: str, frame: bytes, caller: Context) -> Any:
        worker: _Worker | None = None
        try:
            worker = self._idle.pop() if self._idle else await self._start()
            result = await worker.run(frame, self.settings.job_seconds)
        except (JobTooLong, WorkerDied):
            self.failures += 1
            raise
        finally:
            if worker is not None:
                self._keep(worker)
            self._leave(tenant)
        self.jobs += 1
        self.cpu_seconds += result.cpu_seconds
        if self._charge is not None:
            caller.run(self._charge, tenant, result.cpu_seconds)
        if result.memory > self.settings.keep_memory and worker in self._idle:
            self._idle.remove(worker)
            self._end(worker)
        if isinstance(result.error, WorkerMemoryError):
            raise JobTooLarge from result.error
        if result.error is not None:
            try:
                raise result.error
            finally:
                del result  # its error holds this frame
        return result.value

    # -- turns

    async def _take_turn(self, name: str) -> None:
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant()
        if not tenant.queue and self._has_room(tenant):
            self._enter(tenant)
            return
        turn = asyncio.get_running_loop().create_future()
        tenant.queue.append(turn)
        self._turns.setdefault(name)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(name)  # the turn came too late
            else:
                with contextlib.suppress(ValueError):
                    tenant.queue.remove(turn)
                self._tidy(name, tenant)
            raise

    def _has_room(self, tenant: _Tenant) -> bool:
        most = self.settings.processes
        return self._busy < most and tenant.running < max(1, most - 1)

    def _enter(self, tenant: _Tenant) -> None:
        tenant.running += 1
        self._busy += 1

    def _leave(self, name: str) -> None:
        tenant = self._tenants[name]
        tenant.running -= 1
        self._busy -= 1
        self._tidy(name, tenant)
        for waiting in list(self._turns):
            next_one = self._tenants[waiting]
            if not self._has_room(next_one):
                continue
            turn = next_one.queue.popleft()
            del self._turns[waiting]
            if next_one.queue:
                self._turns[waiting] = None  # to the end of the line
            if not turn.done():
                self._enter(next_one)
                turn.set_result(None)
                return

    def _tidy(self, name: str, tenant: _Tenant) -> None:
        if not tenant.queue:
            self._turns.pop(name, None)
            if not tenant.running:
                self._tenants.pop(name, None)

    # -- processes

    async def _start(self) -> _Worker:
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(  # noqa: ASYNC220  # about a millisecond
                [
                    sys.executable,
                    "-m",
                    "pykcp.workers.process",
                    str(theirs.fileno()),
                    str(self.settings.memory),
                    str(self.settings.job_seconds),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        return _Worker(process, reader, writer)

    def _keep(self, worker: _Worker) -> None:
        if worker.is_spent:
            self._end(worker)
            return
        worker.idle_since = asyncio.get_running_loop().time()
        self._idle.append(worker)
        self._wake_later()

    def _end(self, worker: _Worker) -> None:
        worker.stop()
        self._ended.append(worker.process)
        self._wake_later()

    def _wake_later(self) -> None:
        """One timer while there is a process to look after, and none otherwise."""
        if self._timer is None:
            self._timer = call_later(self.settings.idle_seconds / 2, self._look_after)

    def _look_after(self) -> None:
        self._timer = None
        oldest = asyncio.get_running_loop().time() - self.settings.idle_seconds
        for worker in [w for w in self._idle if w.idle_since <= oldest]:
            self._idle.remove(worker)
            self._end(worker)
        self._ended = [process for process in self._ended if process.poll() is None]
        if self._idle or self._ended:
            self._wake_later()

    async def serve(self) -> None:
        """Until it is cancelled; then all workers are ended."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End all workers; jobs under way are given up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for worker in self._idle:
            worker.is_spent = True
            worker.stop()
            self._ended.append(worker.process)
        self._idle.clear()
        for process in self._ended:
            await asyncio.to_thread(process.wait)
        self._ended.clear()
