"""The processes of one workload: as many as asked for, replaced one after the other."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from pykcp.aio.owner import TaskOwner
from pykcp.clients.credential_files import CredentialError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, CompiledWorkload
from pykcp.programs.operator.drivers.process.commands import can_share_port, has_own_data
from pykcp.programs.operator.drivers.process.ignored import ignored_fields
from pykcp.programs.operator.drivers.process.materialize import materialize
from pykcp.programs.operator.drivers.process.records import ReplicaRecord
from pykcp.programs.operator.drivers.process.replica import ReplicaPlace, ReplicaProcess
from pykcp.programs.operator.drivers.process.state import ReplicaState, WorkloadReport

_log = logging.getLogger(__name__)
Until = Callable[[Callable[[], bool]], Awaitable[None]]
"""Waits until a condition holds; it is checked whenever something has changed."""


class Workload:
    """Started empty: `want` says what to run, `start_missing` and `replace_outdated` do it."""

    def __init__(
        self,
        compiled: CompiledWorkload,
        place: ReplicaPlace,
        changed: Callable[[], None],
        owner: TaskOwner,
    ) -> None:
        self.compiled = compiled
        self._place, self._changed, self._owner = place, changed, owner
        self._replicas: dict[tuple[int, str], ReplicaProcess] = {}
        """By number and revision: while one is replaced, two have the same number."""
        self.problem = ""
        self.revision = ""
        """Of what its processes are started from; a request to restart them changes it."""
        self.want(compiled, "")

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def desired(self) -> int:
        wanted = self.compiled.replicas
        count = DEFAULT_REPLICAS if wanted is None else wanted
        return count if can_share_port(self.compiled) else min(count, 1)

    def want(self, compiled: CompiledWorkload, salt: str) -> None:
        self.compiled = compiled
        text = f"{compiled.restart_revision}{salt}"
        self.revision = hashlib.sha256(text.encode()).hexdigest()[:16]

    def adopt(self, record: ReplicaRecord) -> None:
        """Go on with a process that an earlier supervisor started."""
        self._begin(ReplicaProcess(self.compiled, record.number, record.revision, self._place,
                            self._changed, record))  # fmt: skip

    # -- steps -----------------------------------------------------------------------------------

    def write_files(self) -> bool:
        """Whether the workload can be run: its files are written and its program exists."""
        try:
            materialize(self.compiled.files)
            materialize(file for step in self.compiled.init for file in step.files)
            self._place.programs.command(self.compiled)
        except (CredentialError, SettingsError) as error:
            if self.problem != str(error):
                _log.error("%s cannot be run: %s", self.name, error)
            self.problem = str(error)
            self._changed()
            return False
        if self.problem:
            self.problem = ""
            self._changed()
        return True

    async def stop_surplus(self) -> None:
        """Stop replicas that are not wanted any more, those with the highest numbers."""
        for replica in list(self._replicas.values()):
            if replica.number >= self.desired:
                await self._end(replica)

    def start_missing(self) -> None:
        """Start replicas that do not exist, and those of this revision that wait at once."""
        present = {number for number, _ in self._replicas}
        for number in range(self.desired):
            if number not in present:
                self._begin(self._new(number))

    async def replace_outdated(self, until: Until) -> None:
        """Replace replicas of older revisions, one after the other, each by one that is ready."""
        revision = self.revision
        for old in sorted(self._outdated(), key=lambda one: one.number):
            overlaps = _can_overlap(self.compiled) and _can_overlap(old.compiled)
            if not overlaps or not old.is_ready:
                await self._end(old)
            new = self._replicas.get((old.number, revision))
            if new is None:
                new = self._new(old.number)
                self._begin(new)
            started = new
            await until(lambda: started.is_ready)  # noqa: B023  # awaited in this turn of the loop
            if (old.number, old.revision) in self._replicas:
                await self._end(old)

    def _outdated(self) -> Iterator[ReplicaProcess]:
        revision = self.revision
        return (one for one in list(self._replicas.values()) if one.revision != revision)

    async def stop(self) -> None:
        for replica in sorted(self._replicas.values(), key=lambda one: -one.number):
            await self._end(replica)

    def leave(self) -> None:
        for replica in self._replicas.values():
            replica.leave()

    # -- processes -------------------------------------------------------------------------------

    def _new(self, number: int) -> ReplicaProcess:
        return ReplicaProcess(self.compiled, number, self.revision, self._place, self._changed)

    def _begin(self, replica: ReplicaProcess) -> None:
        self._replicas[replica.number, replica.revision] = replica
        self._owner.start_restartable(self._task(replica), replica.run)
        self._changed()

    async def _end(self, replica: ReplicaProcess) -> None:
        await self._owner.stop_one(self._task(replica))
        await replica.stop()
        self._replicas.pop((replica.number, replica.revision), None)
        self._changed()

    def _task(self, replica: ReplicaProcess) -> str:
        return f"{replica.name}/{replica.revision}"

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> WorkloadReport:
        compiled, revision = self.compiled, self.revision
        replicas = tuple(
            _marked(one.state, revision)
            for _, one in sorted(self._replicas.items(), key=lambda item: item[0])
        )
        return WorkloadReport(
            compiled.name,
            compiled.component,
            f"{compiled.owner.kind}/{compiled.owner.name}",
            f"{compiled.listen.host}:{compiled.listen.port}",
            self.desired,
            revision,
            replicas,
            self.problem,
            ignored_fields(compiled),
        )


def _can_overlap(compiled: CompiledWorkload) -> bool:
    """Whether a new process may run beside the one that it replaces."""
    return can_share_port(compiled) and not has_own_data(compiled)


def _marked(found: ReplicaState, revision: str) -> ReplicaState:
    return replace(found, is_updated=found.revision == revision)
