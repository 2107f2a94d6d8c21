"""One process of a workload: started or adopted, probed, restarted when it ends, stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pykcp.aio.owner import spawn
from pykcp.auth.files import ensure_directory
from pykcp.clients.credential_files import CredentialError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CompiledWorkload, InitStep
from pykcp.programs.operator.drivers.process import backoff, commands, logfiles, state
from pykcp.programs.operator.drivers.process.health import LIVENESS, ReplicaHealth
from pykcp.programs.operator.drivers.process.identity import (
    ProcessIdentity,
    identify,
    own_memory,
)
from pykcp.programs.operator.drivers.process.limits import memory_limit, memory_problem
from pykcp.programs.operator.drivers.process.ports import free_port
from pykcp.programs.operator.drivers.process.probing import probe
from pykcp.programs.operator.drivers.process.records import ReplicaRecord, ReplicaRecords
from pykcp.programs.operator.drivers.process.state import ReplicaState

_log = logging.getLogger(__name__)
MARKER = "PYKCP_REPLICA"
"""Environment variable of the processes: finds them if their record was not written."""
_LOCAL = "127.0.0.1"
_LAST_LINES = 6
_STEP_SECONDS = 300.0


class _StartFailed(Exception):
    """The process could not be started; the message is for people."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a workload's processes leave their traces, and what they share."""

    directory: pathlib.Path
    records: ReplicaRecords
    programs: commands.InstalledPrograms
    grace: float
    environment: Mapping[str, str]

    def log(self, workload: str, number: int) -> pathlib.Path:
        return self.directory / "logs" / f"{workload}-{number}.log"


class ReplicaProcess:
    """Its life; `run` until cancelled, then `stop` or leave it running."""

    def __init__(
        self,
        compiled: CompiledWorkload,
        number: int,
        revision: str,
        place: ReplicaPlace,
        changed: Callable[[], None],
        adopted: ReplicaRecord | None = None,
    ) -> None:
        self.compiled, self.number, self.revision = compiled, number, revision
        self._place, self._changed = place, changed
        self._log = place.log(compiled.name, number)
        self._memory_limit = memory_limit(compiled)
        self._record = adopted
        self._child: subprocess.Popen[bytes] | None = None
        self._health: ReplicaHealth | None = None
        self._log_start = 0
        self._failures = 0
        self._ready_since: float | None = None
        self._wake = asyncio.Event()
        restarts = adopted.restarts if adopted is not None else 0
        self.state = ReplicaState(number, state.STARTING, revision, True, restarts=restarts)

    @property
    def name(self) -> str:
        return f"{self.compiled.name}-{self.number}"

    @property
    def is_ready(self) -> bool:
        return self.state.phase == state.READY

    def retry_now(self) -> None:
        """End a pause between two starts."""
        self._wake.set()

    # -- life ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled: keep a process running."""
        while True:
            if self._record is None:
                try:
                    await self._launch()
                except (_StartFailed, SettingsError, CredentialError, OSError) as error:
                    await self._pause(None, str(error))
                    continue
            else:
                _log.info("%s runs already, as process %d", self.name, self._record.identity.pid)
            reason = await self._watch()
            await self._pause(self._exit_code(), reason)

    async def _launch(self) -> None:
        compiled = self.compiled
        command = self._place.programs.command(compiled)
        words = commands.replica_words(compiled, command, self.number)
        host, port = reached_host(compiled), compiled.listen.port
        if commands.can_share_port(compiled):
            host, port = _LOCAL, free_port()
            words += commands.sharing_flags(port)
        for directory in (commands.data_directory(compiled, self.number), *compiled.directories):
            if directory:
                ensure_directory(pathlib.Path(directory))
        out = logfiles.open_log(self._log)
        try:
            self._log_start = os.fstat(out).st_size
            for step in compiled.init:
                await self._run_step(step, out)
            self._child = self._spawn(words, out, host, port)
        finally:
            os.close(out)
        identity = identify(self._child.pid)
        if identity is None:
            raise _StartFailed(f"ended at once with exit code {self._child.wait()}")
        self._remember(identity, host, port)

    def _remember(self, identity: ProcessIdentity, host: str, port: int) -> None:
        restarts = self.state.restarts
        record = ReplicaRecord(
            self.compiled.name, self.number, self.revision, identity, host, port, time.time(), restarts
        )  # fmt: skip
        self._record = record
        self._place.records.save(record)
        _log.info("started %s as process %d", self.name, identity.pid)
        self._show(phase=state.STARTING, message="", lines=())

    def _spawn(
        self, words: Sequence[str], out: int, host: str = "", port: int = 0
    ) -> subprocess.Popen[bytes]:
        mark = "\t".join(
            (str(self._place.directory), self.compiled.name, str(self.number), self.revision,
             host, str(port))
        )  # fmt: skip
        environment = {
            **os.environ,
            **self._place.environment,
            **self.compiled.environment,
            MARKER: mark,
        }
        try:
            # A session of its own: signals of a terminal reach the supervisor alone.
            return subprocess.Popen(
                list(words), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _StartFailed(f"cannot run {words[0]}: {error.strerror or error}") from error

    async def _run_step(self, step: InitStep, out: int) -> None:
        child = self._spawn([*step.command, *step.arguments], out)
        identity = identify(child.pid)
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                if identity is not None:
                    await identity.ended()
        except TimeoutError:
            child.kill()
            child.wait()
            raise _StartFailed(f"step {step.name} did not end in {_STEP_SECONDS:g} s") from None
        except asyncio.CancelledError:
            child.kill()
            child.wait()
            raise
        if code := child.wait():
            raise _StartFailed(f"step {step.name} ended with exit code {code}")

    # -- probes ----------------------------------------------------------------------------------

    async def _watch(self) -> str:
        """Until the process has ended; why it was ended, "" if it ended by itself."""
        record = self._record
        assert record is not None
        clock = asyncio.get_running_loop().time
        health = self._health = ReplicaHealth(self.compiled.probes, clock())
        self._ready_since = None
        self._show_health(health)
        ended = spawn(record.identity.ended(), f"end of {self.name}")
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=health.wait(clock()))
                if not ended.done():
                    await self._probe_until(ended, record, health)
                if health.restart_reason:
                    _log.warning("%s is restarted: %s", self.name, health.restart_reason)
                    await self._terminate(record.identity)
                    return health.restart_reason
            return ""
        finally:
            ended.cancel()

    async def _probe_until(
        self, ended: asyncio.Task[None], record: ReplicaRecord, health: ReplicaHealth
    ) -> None:
        """Send the probes that are due, unless the process ends: they may hang then."""
        probing = spawn(self._probe(record, health), f"probe of {self.name}")
        try:
            await asyncio.wait((probing, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not probing.done():
                probing.cancel()
        if not probing.cancelling():
            await probing

    async def _probe(self, record: ReplicaRecord, health: ReplicaHealth) -> None:
        clock = asyncio.get_running_loop().time
        for kind, what in health.due(clock()):
            outcome = await probe(self.compiled.listen, record.host, record.port, what)
            if not record.identity.is_alive:
                return
            problem = outcome.problem
            health.note(
                kind, "" if kind == LIVENESS and outcome.is_certificate else problem, clock()
            )
        self._rotate()
        if not health.restart_reason:  # also if it is not ready: that may be why
            used = own_memory(record.identity.pid) if self._memory_limit else 0
            health.restart_reason = memory_problem(used, self._memory_limit)
        self._show_health(health)

    def _show_health(self, health: ReplicaHealth) -> None:
        if health.is_ready and self._ready_since is None:
            self._ready_since = asyncio.get_running_loop().time()
        phase = state.STARTING if self._ready_since is None else state.NOT_READY
        if health.is_ready:
            phase = state.READY
        self._show(phase=phase, message=health.problem, lines=())

    def _rotate(self) -> None:
        try:
            logfiles.rotate(self._log)
        except OSError as error:
            _log.warning("cannot rotate %s: %s", self._log, error.strerror or error)

    # -- end -------------------------------------------------------------------------------------

    def _exit_code(self) -> int | None:
        """Of the process that has ended; unknown if another supervisor started it."""
        child, self._child = self._child, None
        return child.wait() if child is not None else None

    async def _pause(self, code: int | None, reason: str) -> None:
        """Note a failure, and wait before the next start."""
        record, self._record = self._record, None
        if record is not None:
            self._place.records.remove(record)
        now = asyncio.get_running_loop().time()
        healthy = now - self._ready_since if self._ready_since is not None else 0.0
        self._ready_since = None
        self._failures = backoff.failures_after(self._failures, healthy)
        seconds = backoff.restart_pause(self._failures)
        lines = tuple(logfiles.last_lines(self._log, _LAST_LINES, self._log_start))
        reason = reason or state.ending(code, lines)
        row = f"{self._failures} times in a row" if self._failures > 1 else "once"
        _log.error("%s: %s; next start in %g s", self.name, reason, seconds)
        self._show(
            phase=state.BACK_OFF,
            exit_code=code,
            message=f"{reason}; failed {row}, next start in {seconds:g} s",
            lines=lines,
            restarts=self.state.restarts + 1,
            restart_reason=reason,
        )
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """End the process; `run` must have been cancelled before."""
        record, self._record = self._record, None
        if record is None:
            return
        self._record = record
        self._show(phase=state.STOPPING, message="")
        await self._terminate(record.identity)
        self._exit_code()
        self._record = None
        self._place.records.remove(record)

    def leave(self) -> None:
        """Let the process run on its own."""
        if self._child is not None:
            self._child.returncode = 0  # a Popen warns if it is dropped while its process runs
            self._child = None

    async def _terminate(self, identity: ProcessIdentity) -> None:
        if not identity.send(signal.SIGTERM):
            return
        try:
            async with asyncio.timeout(self._place.grace):
                await identity.ended()
        except TimeoutError:
            _log.warning("%s does not stop and is killed", self.name)
            identity.send(signal.SIGKILL)
            await identity.ended()

    def _show(self, **changes: object) -> None:
        record = self._record
        changed = replace(
            self.state,
            pid=record.identity.pid if record is not None else 0,
            host=record.host if record is not None else "",
            port=record.port if record is not None else 0,
            since=record.since if record is not None else 0.0,
            **changes,  # type: ignore[arg-type]
        )
        if changed != self.state:
            self.state = changed
            self._changed()


def reached_host(compiled: CompiledWorkload) -> str:
    """The address under which a process of this host is asked."""
    host = compiled.listen.host
    return {"0.0.0.0": _LOCAL, "": _LOCAL, "::": "::1"}.get(host, host)  # noqa: S104
