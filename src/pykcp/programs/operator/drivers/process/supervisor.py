"""All workloads of this host: applied, updated in order, adopted after a crash, stopped."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pathlib
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from pykcp.aio.owner import TaskOwner, spawn
from pykcp.auth.files import write_private
from pykcp.programs.operator.compiled import START_ORDER, UPGRADE_ORDER, CompiledWorkload
from pykcp.programs.operator.drivers.process import identity
from pykcp.programs.operator.drivers.process.commands import InstalledPrograms
from pykcp.programs.operator.drivers.process.materialize import remove_files
from pykcp.programs.operator.drivers.process.records import ReplicaRecord, ReplicaRecords
from pykcp.programs.operator.drivers.process.replica import MARKER, ReplicaPlace
from pykcp.programs.operator.drivers.process.state import WorkloadReport
from pykcp.programs.operator.drivers.process.workload import Workload

_log = logging.getLogger(__name__)
GRACE_SECONDS = 20.0
_RETRY_SECONDS = 5.0
"""How often a workload whose files cannot be written is tried again."""


class Supervisor:
    """Enter it to adopt what runs; leave it with `stop` or, with the processes running, `leave`."""

    def __init__(
        self,
        directory: pathlib.Path,
        changed: Callable[[], None] = lambda: None,
        grace: float = GRACE_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._listener = changed
        self._owner = TaskOwner("supervisor")
        self._records = ReplicaRecords(self.directory / "run")
        programs = InstalledPrograms(self.directory / "versions")
        self._place = ReplicaPlace(
            self.directory, self._records, programs, grace, environment or {}
        )
        self._workloads: dict[str, Workload] = {}
        self._found: dict[str, list[ReplicaRecord]] = {}
        """Processes of an earlier supervisor that no workload has asked for yet."""
        self._salts = _Salts(self.directory / "restarts.json")
        self._rollout: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    # -- desired state ---------------------------------------------------------------------------

    async def apply(self, wanted: Sequence[CompiledWorkload]) -> None:
        """Run these workloads and no others. Returns at once; `states` tells how it goes."""
        if self._rollout is not None:
            self._rollout.cancel()
            with suppress(asyncio.CancelledError):
                await self._rollout
        for compiled in wanted:
            workload = self._workloads.get(compiled.name)
            if workload is None:
                workload = Workload(compiled, self._place, self.notify, self._owner)
                self._workloads[compiled.name] = workload
            workload.want(compiled, self._salts.of(compiled.name))
        names = {compiled.name for compiled in wanted}
        gone = [one for name, one in self._workloads.items() if name not in names]
        self._rollout = spawn(self._roll(gone), "rollout")
        self._rollout.add_done_callback(_report)

    async def restart(self, name: str) -> None:
        """Replace the processes of a workload, one after the other. Raises KeyError."""
        self._salts.renew(self._workloads[name].name)
        await self.apply([one.compiled for one in self._workloads.values()])

    async def _roll(self, gone: Sequence[Workload]) -> None:
        await self._stop_strangers()
        for workload in _ordered(gone, reversed(START_ORDER)):
            await workload.stop()
            remove_files(workload.compiled.files)  # they contain keys; data stays
            del self._workloads[workload.name]
            self.notify()
        runnable = await self._start_all()
        for workload in _ordered(runnable, UPGRADE_ORDER):
            await workload.replace_outdated(self.until)
        self.notify()

    async def _start_all(self) -> list[Workload]:
        """All at once: each becomes ready sooner when others are, and none requires it."""
        while True:
            runnable = [one for one in self._ordered() if one.write_files()]
            for workload in runnable:
                await workload.stop_surplus()
                workload.start_missing()
            if len(runnable) == len(self._workloads):
                return runnable
            await asyncio.sleep(_RETRY_SECONDS)

    def _ordered(self) -> list[Workload]:
        return _ordered(self._workloads.values(), START_ORDER)

    # -- adoption --------------------------------------------------------------------------------

    def adopt(self, wanted: Sequence[CompiledWorkload]) -> int:
        """Go on with the processes of an earlier supervisor; how many there are."""
        for record in self._surviving():
            self._found.setdefault(record.workload, []).append(record)
        adopted = 0
        for compiled in wanted:
            records = self._found.pop(compiled.name, [])
            if not records:
                continue
            workload = Workload(compiled, self._place, self.notify, self._owner)
            self._workloads[compiled.name] = workload
            for record in records:
                workload.adopt(record)
                adopted += 1
        return adopted

    def _surviving(self) -> Iterable[ReplicaRecord]:
        known = set()
        for record in self._records:
            known.add(record.identity)
            if record.identity.is_alive:
                yield record
            else:
                self._records.remove(record)
        for process, mark in identity.marked_processes(MARKER):
            found = _of_mark(self.directory, process, mark)
            if found is not None and process not in known:
                self._records.save(found)
                yield found

    async def _stop_strangers(self) -> None:
        """Stop processes of workloads that do not exist any more."""
        for name, records in list(self._found.items()):
            for record in records:
                _log.info("stopping %s, which is not configured any more", record.name)
                await _end_stranger(record, self._place.grace)
                self._records.remove(record)
            del self._found[name]

    # -- state -----------------------------------------------------------------------------------

    def states(self) -> list[WorkloadReport]:
        return [one.state() for one in self._ordered()]

    def notify(self) -> None:
        """Something has changed: conditions that are waited for are checked again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._listener()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the states holds."""
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    # -- end -------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Supervise no longer; the processes go on."""
        if self._rollout is not None:
            self._rollout.cancel()
            with suppress(asyncio.CancelledError):
                await self._rollout
        await self._owner.stop()
        for workload in self._workloads.values():
            workload.leave()

    async def stop(self) -> None:
        """Stop all processes, those that others depend on last."""
        if self._rollout is not None:
            self._rollout.cancel()
            with suppress(asyncio.CancelledError):
                await self._rollout
        await self._stop_strangers()
        for component in reversed(START_ORDER):
            those = [one for one in self._workloads.values() if one.compiled.component == component]
            await asyncio.gather(*(one.stop() for one in those))
        await self._owner.stop()


class _Salts:
    """When the processes of a workload were last asked to restart: part of their revision."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            self._salts: dict[str, str] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            self._salts = {}

    def of(self, name: str) -> str:
        return self._salts.get(name, "")

    def renew(self, name: str) -> None:
        self._salts[name] = os.urandom(8).hex()
        write_private(self._path, json.dumps(self._salts).encode())


def _ordered(workloads: Iterable[Workload], order: Iterable[str]) -> list[Workload]:
    places = {component: place for place, component in enumerate(order)}
    return sorted(workloads, key=lambda one: (places.get(one.compiled.component, 99), one.name))


def _report(rollout: asyncio.Task[None]) -> None:
    if not rollout.cancelled() and (error := rollout.exception()) is not None:
        _log.error("the update of workloads failed", exc_info=error)


def _of_mark(
    directory: pathlib.Path, process: identity.ProcessIdentity, mark: str
) -> ReplicaRecord | None:
    parts = mark.split("\t")
    if len(parts) != 6 or parts[0] != str(directory) or not parts[4]:
        return None
    _, workload, number, revision, host, port = parts
    return ReplicaRecord(workload, int(number), revision, process, host, int(port), 0.0)


async def _end_stranger(record: ReplicaRecord, grace: float) -> None:
    if not record.identity.send(signal.SIGTERM):
        return
    try:
        async with asyncio.timeout(grace):
            await record.identity.ended()
    except TimeoutError:
        record.identity.send(signal.SIGKILL)
        await record.identity.ended()
