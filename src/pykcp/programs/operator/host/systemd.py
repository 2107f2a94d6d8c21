"""An installation whose programs systemd runs: files, units, and what a supervisor would tend.

Below the root directory everything is done as the user of the units; only units are written, and
stopped, by who called the command.
"""

from __future__ import annotations

import asyncio
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from pykcp.auth.files import ensure_directory
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.drivers.process.commands import InstalledPrograms
from pykcp.programs.operator.drivers.process.materialize import materialize
from pykcp.programs.operator.drivers.process.state import WorkloadReport, all_available
from pykcp.programs.operator.drivers.systemd.directory import UnitChanges, UnitDirectory
from pykcp.programs.operator.drivers.systemd.reports import unit_reports
from pykcp.programs.operator.drivers.systemd.systemctl import (
    loaded_units,
    reload_units,
    stop_units,
)
from pykcp.programs.operator.drivers.systemd.units import (
    SystemdUnit,
    instance_data,
    renewal_units,
    replica_count,
    workload_units,
)
from pykcp.programs.operator.drivers.systemd.user import SystemdUser, acting_as
from pykcp.programs.operator.host.deliveries import deliver, fetch
from pykcp.programs.operator.host.installation import ConfiguredHost, Installation
from pykcp.programs.operator.host.layout import HostFiles, read_json, write_json
from pykcp.programs.operator.host.remote_workloads import look_elsewhere, ready_elsewhere
from pykcp.programs.operator.host.status import host_status
from pykcp.programs.operator.host.tending import has_gone, object_label, tend_objects
from pykcp.types import Object

_FIRST_PAUSE, _LAST_PAUSE = 0.3, 5.0
_MOST_PASSES = 5
"""Of one call: what is deleted or fetched changes what is to run."""


class SystemdHost:
    """`run_once`, or `run_until_done`."""

    def __init__(
        self, installation: Installation, directory: pathlib.Path, user: SystemdUser | None
    ) -> None:
        self._installation, self._files = installation, installation.files
        self._units = UnitDirectory(directory, self._files.root)
        self._user = user
        self.written: dict[str, SystemdUnit] = {}
        """Units that have changed: systemd is to read them again."""
        self.surplus: list[str] = []
        """Instances that systemd would have to stop, if it ran them."""
        self.count = 0
        """Of all units."""
        self.waiting: dict[str, str] = {}
        """What could not be done inside of the installation, by object."""
        self.reports: list[WorkloadReport] = []

    def run_once(self) -> bool:
        """Whether nothing is left to do. Raises SettingsError, CredentialError."""
        for _ in range(_MOST_PASSES):
            with ExitStack() as held:
                with acting_as(self._user):
                    if not held.enter_context(self._files.lock()):
                        raise SettingsError(f"another kcp up is at work in {self._files.root}")
                configured = self._configure()
                with acting_as(self._user):
                    is_done, has_changed = asyncio.run(self._tend(configured))
            if not has_changed:
                return is_done
        return False

    def run_until_done(self, seconds: float) -> bool:
        """Also wait for programs that start: whether everything is as it should be."""
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            is_done = self.run_once() and all_available(self.reports)
            if is_done or time.monotonic() + pause > deadline:
                return is_done
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    # -- files and units -------------------------------------------------------------------------

    def _configure(self) -> ConfiguredHost:
        with acting_as(self._user):
            configured = self._installation.configure(time.time())
            for one in configured.local:
                materialize(one.files)
                materialize(file for step in one.init for file in step.files)
                data = (instance_data(one, number) for number in range(replica_count(one)))
                for directory in (*data, *one.directories):
                    if directory:
                        ensure_directory(pathlib.Path(directory))
        problems = list(_problems(configured))
        if problems:  # certificates are renewed all the same
            raise SettingsError("\n".join(problems))
        units = self._all_units(configured)
        changes = self._units.changes(units)
        stopped = self._stop(changes)
        self._units.apply(changes)
        if stopped:
            reload_units()
        with acting_as(self._user):
            self._remove_files(changes, configured.manifests.namespace)
        self.count = len(units)
        self.written |= {unit.name: unit for unit in changes.written}
        return configured

    def _all_units(self, configured: ConfiguredHost) -> Sequence[SystemdUnit]:
        root, name = str(self._files.root), self._installation.choices.systemd_user
        programs = InstalledPrograms(self._files.root / "versions")
        commands = {one.name: programs.command(one) for one in configured.local}
        namespace = configured.manifests.namespace
        again = [
            sys.executable, "-m", "pykcp", "up", f"--root-directory={root}",
            f"--systemd={self._units.path}", *([f"--systemd-user={name}"] if name else []),
            "--systemd-wait",
        ]  # fmt: skip
        return [
            *workload_units(configured.local, commands, namespace, root, name),
            *renewal_units(namespace, again, root),
        ]

    def _stop(self, changes: UnitChanges) -> list[str]:
        """Programs of workloads that do not exist any more; those that systemd ran."""
        loaded = loaded_units(changes.surplus, self._units.path)
        if loaded:
            stop_units(loaded)
        self.surplus += [name for name in changes.surplus if name not in loaded]
        return loaded

    def _remove_files(self, changes: UnitChanges, namespace: str) -> None:
        """What removed workloads read: it contains keys. Data stays."""
        for path in changes.stale:
            workload = path.name.removeprefix(f"kcp-{namespace}-").removesuffix("@.service")
            directory = self._files.root / namespace / workload / "files"
            shutil.rmtree(directory, ignore_errors=True)

    # -- inside of the installation ----------------------------------------------------------------

    async def _tend(self, configured: ConfiguredHost) -> tuple[bool, bool]:
        """Whether nothing is left to do, and whether there is something else to run now."""
        self.reports, elsewhere = await _look(configured)
        available = {one.owner for one in self.reports if one.is_available}
        available |= ready_elsewhere(configured, elsewhere)
        is_done = await tend_objects(configured, available, self.waiting)
        if configured.world is not None:
            is_done &= await deliver(self._files, configured.remote, configured.world)
        fetched = await fetch(self._files, configured.imported)
        status = systemd_status(configured, self.reports, self.waiting, time.time(), elsewhere)
        write_json(self._files.status, status)
        return is_done, bool(fetched) or has_gone(configured)


def _problems(configured: ConfiguredHost) -> Iterator[str]:
    """Of objects that are to run; one that is being deleted may lack what it refers to."""
    if configured.configuration is None:
        return
    deleted = {
        object_label(one)
        for one in configured.manifests.objects
        if one["metadata"].get("deletionTimestamp")
    }
    for (kind, name), problem in configured.configuration.problems.items():
        if f"{kind}/{name}" not in deleted:
            yield f"{kind}/{name}: {problem.message}"


def systemd_status(
    configured: ConfiguredHost,
    reports: Sequence[WorkloadReport],
    waiting: Object | dict[str, str],
    now: float,
    elsewhere: Mapping[str, str],
) -> Object:
    found = host_status(configured, reports, "", now, elsewhere)
    is_right = not configured.problems and not waiting
    return {**found, "available": is_right and all_available(reports), "waiting": waiting}


def live_status(files: HostFiles) -> Object | None:
    """The status as of now; None if systemd does not run this installation."""
    choices = files.choices()
    if choices is None or not choices.systemd:
        return None
    now = time.time()
    configured = Installation(files, choices).configure(now, saves=False)
    reports, elsewhere = asyncio.run(_look(configured))
    last = read_json(files.status) or {}
    return systemd_status(configured, reports, last.get("waiting") or {}, now, elsewhere)


async def _look(configured: ConfiguredHost) -> tuple[list[WorkloadReport], dict[str, str]]:
    return await unit_reports(configured.local), await look_elsewhere(configured)
