"""The life of `kcp up`: configure, run, watch, answer requests, stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pykcp.aio.owner import TaskOwner
from pykcp.clients.credential_files import CredentialError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.drivers.process.state import WorkloadReport, all_available
from pykcp.programs.operator.drivers.process.supervisor import Supervisor
from pykcp.programs.operator.host.certificates import request_renewal
from pykcp.programs.operator.host.control import ControlServer
from pykcp.programs.operator.host.deliveries import FETCH_SECONDS, deliver, fetch
from pykcp.programs.operator.host.installation import ConfiguredHost, Installation
from pykcp.programs.operator.host.layout import HostFiles, write_json
from pykcp.programs.operator.host.remote_workloads import (
    LOOK_SECONDS,
    look_elsewhere,
    owners_elsewhere,
    ready_elsewhere,
)
from pykcp.programs.operator.host.status import host_status
from pykcp.programs.operator.host.tending import has_gone, object_label, tend_objects
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.programs.operator.host.monitoring import HostMonitoring

_log = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS, _RETRY_SECONDS = 0.3, 5.0
"""A shard registers itself soon after it is ready; what takes longer is asked for less often."""
_LONGEST_WAIT = 3600.0
"""Clocks are set, and machines sleep: what is due is looked up at least so often."""
_STATUS_SECONDS = 0.2


_Seen = tuple[int, frozenset[str]]
"""Passes of the configuration stage, and the objects whose programs are available."""


class running_host:  # noqa: N801  # a context, as those of other programs
    """The started installation, as a context."""

    NAME = "kcp up"

    def __init__(self, installation: Installation, *, leaves: bool = False) -> None:
        self.installation, self.files = installation, installation.files
        self._leaves = leaves
        self._owner = TaskOwner("up")
        self.supervisor = Supervisor(self.files.root, self._changed)
        self._control = ControlServer(self.files.root, self._answer)
        self._lock: AbstractContextManager[bool] = self.files.lock()
        self._wake, self._status_due = asyncio.Event(), asyncio.Event()
        self._configuring = asyncio.Lock()
        self.configured: ConfiguredHost | None = None
        self.problem = ""
        """Why the last run of the configuration stage failed."""
        self._passes = 0
        self.fetch_seconds = FETCH_SECONDS
        self._monitoring: HostMonitoring | None = None
        self.waiting: dict[str, str] = {}
        """What could not be done inside of the installation, by object."""
        self._elsewhere: dict[str, str] = {}
        """Why workloads of other hosts do not count as ready, by name."""
        self._settled: _Seen | None = None
        """The state in which nothing but deletions was left to do inside of the installation."""

    async def __aenter__(self) -> HostFiles:
        if not self._lock.__enter__():
            self._lock.__exit__(None, None, None)
            raise SettingsError(f"a supervisor is already running for {self.files.root}")
        try:
            configured = await asyncio.to_thread(self.installation.configure, time.time())
            adopted = self.supervisor.adopt(configured.local)
            if adopted:
                _log.info("%d processes of an earlier supervisor are still running", adopted)
            await self._use(configured)
            await self._control.start()
            await self._monitor()
        except BaseException:  # a failed start must leave nothing behind
            await self.supervisor.leave()
            self._lock.__exit__(None, None, None)
            raise
        self._owner.start_restartable("configuration", self._follow)
        self._owner.start_restartable("status", self._write_status)
        self._owner.start_restartable("access", self._tend)
        self._owner.start_restartable("deliveries", self._fetch)
        self._owner.start_restartable("elsewhere", self._look_elsewhere)
        return self.files

    async def _monitor(self) -> None:
        address = self.installation.choices.metrics_bind_address
        if address in ("", "0"):
            return
        from pykcp.programs.operator.host.monitoring import HostMonitoring

        self._monitoring = HostMonitoring(address, self.reports, self._objects)
        await self._monitoring.start()

    async def _use(self, configured: ConfiguredHost) -> None:
        self.configured, self.problem = configured, ""
        for text in configured.problems:
            _log.warning("%s", text)
        await self.supervisor.apply(configured.local)
        self._passes += 1
        self.supervisor.notify()

    # -- configuration ---------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Run the configuration stage when it is asked for, or due."""
        while True:
            due = self.configured.next_time if self.configured is not None else 0.0
            pause = min(max(due - time.time(), 1.0), _LONGEST_WAIT)
            if self.problem:
                pause = _RETRY_SECONDS
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self._reconfigure()

    async def _reconfigure(self) -> None:
        try:
            async with self._configuring:
                configured = await asyncio.to_thread(self.installation.configure, time.time())
        except (SettingsError, CredentialError) as error:
            if self.problem != str(error):
                _log.error("%s", error)
            self.problem = str(error)
            self._passes += 1
            self.supervisor.notify()
            return
        await self._use(configured)

    # -- inside of the installation ----------------------------------------------------------------

    async def _tend(self) -> None:
        """Give users their roles and unregister shards, as soon as servers answer."""
        pause = _FIRST_RETRY_SECONDS
        while True:
            seen = self._seen()
            is_done = await self._tend_all(seen)
            try:
                async with asyncio.timeout(None if is_done else pause):
                    await self.supervisor.until(lambda: self._seen() != seen)  # noqa: B023
            except TimeoutError:
                pause = min(2 * pause, _RETRY_SECONDS)
            else:
                pause = _FIRST_RETRY_SECONDS

    def _seen(self) -> _Seen:
        return self._passes, self._available()

    def _settle(self, seen: _Seen) -> None:
        """Note that what is to be there is there; deletions may wait for a person."""
        objects = self.configured.manifests.objects if self.configured is not None else ()
        wanted = [one for one in objects if not one["metadata"].get("deletionTimestamp")]
        labels = {object_label(one) for one in wanted} - self._owners_elsewhere()
        if not labels & self.waiting.keys():
            self._settled = seen
            self.supervisor.notify()

    def _owners_elsewhere(self) -> frozenset[str]:
        """What this host does not wait for: other hosts may begin much later."""
        return owners_elsewhere(self.configured.remote) if self.configured else frozenset()

    def _available(self) -> frozenset[str]:
        here = frozenset(one.owner for one in self.reports() if one.is_available)
        configured = self.configured
        return here | ready_elsewhere(configured, self._elsewhere) if configured else here

    async def _look_elsewhere(self) -> None:
        """Whether workloads of other hosts answer: then their shards can be marked, too."""
        while True:
            configured = self.configured
            found = await look_elsewhere(configured) if configured is not None else {}
            if found != self._elsewhere:
                self._elsewhere = found
                self.supervisor.notify()
            await asyncio.sleep(LOOK_SECONDS)

    async def _tend_all(self, seen: _Seen) -> bool:
        """Whether nothing is left to do."""
        configured = self.configured
        if configured is None or configured.world is None:
            self._settle(seen)
            return True
        async with self._configuring:
            is_done = await tend_objects(configured, self._available(), self.waiting)
        self._settle(seen)
        is_done &= await deliver(self.files, configured.remote, configured.world)
        if has_gone(configured):
            self._wake.set()
        return is_done

    async def _fetch(self) -> None:
        """Take over changes of imported workloads from the host that configures them."""
        while True:
            configured = self.configured
            if configured is not None and await fetch(self.files, configured.imported):
                self._wake.set()
            await asyncio.sleep(self.fetch_seconds)

    async def _fetch_now(self, configured: ConfiguredHost) -> Object:
        """Certificates of imported workloads are issued where they are configured."""
        changed = await fetch(self.files, configured.imported)
        answer = await self._apply()
        return answer if "error" in answer else {"renewed": changed, "imported": True}

    # -- state -----------------------------------------------------------------------------------

    def _changed(self) -> None:
        self._status_due.set()

    def reports(self) -> list[WorkloadReport]:
        return self.supervisor.states()

    @property
    def is_available(self) -> bool:
        """Everything is ready, shards are registered, and users have their roles."""
        configured = self.configured
        is_right = configured is not None and not configured.problems and not self.problem
        is_ready = is_right and all_available(self.reports())
        return is_ready and self._settled == self._seen()

    def _objects(self) -> list[Object]:
        """The objects of the installation with their statuses."""
        configured = self.configured
        if configured is None:
            return []
        namespace = configured.manifests.namespace
        found = self._host_status()["objects"]
        return [{**one, "metadata": {"name": one["name"], "namespace": namespace}} for one in found]

    def _host_status(self) -> Object:
        return host_status(
            self.configured, self.reports(), self.problem, time.time(), self._elsewhere
        )

    def status(self) -> Object:
        found = self._host_status()
        return {**found, "available": self.is_available, "waiting": self.waiting}

    async def _write_status(self) -> None:
        while True:
            await self._status_due.wait()
            self._status_due.clear()
            try:
                write_json(self.files.status, self.status())
            except CredentialError as error:  # a full disk: the state is still answered
                _log.warning("%s", error)
            await asyncio.sleep(_STATUS_SECONDS)

    # -- requests --------------------------------------------------------------------------------

    async def _answer(self, request: Object) -> AsyncIterator[Object]:
        command = request["command"]
        if command == "ping":
            yield {"pid": os.getpid()}
        elif command == "status":
            yield self.status()
        elif command == "apply":
            yield await self._apply()
        elif command == "renew":
            yield await self._renew(request["names"], authorities=bool(request["authorities"]))
        elif command == "wait":
            async for status in self._progress():
                yield status
        elif command == "restart":
            yield await self._restart([str(name) for name in request["names"]])
        elif command in ("down", "leave"):
            self._leaves = command == "leave"
            yield {"pid": os.getpid()}
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            yield {"error": f"unknown command {command}"}

    async def _apply(self) -> Object:
        before = self._passes
        self._wake.set()
        await self.supervisor.until(lambda: self._passes > before)
        return {"error": self.problem} if self.problem else {"applied": True}

    async def _renew(self, names: list[str], *, authorities: bool) -> Object:
        configured = self.configured
        if configured is not None and configured.imported and not configured.manifests.objects:
            return await self._fetch_now(configured)
        namespace = configured.manifests.namespace if configured is not None else ""
        try:
            async with self._configuring:
                renewed = request_renewal(self.files, namespace, names, authorities=authorities)
        except (SettingsError, CredentialError) as error:
            return {"error": str(error)}
        answer = await self._apply()
        return answer if "error" in answer else {"renewed": renewed}

    async def _progress(self) -> AsyncIterator[Object]:
        """The status whenever it changes, until everything is available."""
        while True:
            shown = self.reports(), dict(self.waiting)
            status = self.status()
            yield status
            if status["available"]:
                return
            await self.supervisor.until(
                lambda: (self.reports(), self.waiting) != shown or self.is_available  # noqa: B023
            )

    async def _restart(self, names: list[str]) -> Object:
        known = {one.name: one for one in self.reports()}
        owners = {one.owner: one.name for one in known.values()}
        for name in names:
            if name not in known and name not in owners:
                listed = ", ".join(known)
                return {"error": f"{name} does not exist; workloads are {listed}"}
        for name in names:
            await self.supervisor.restart(owners.get(name, name))
        return {"restarted": names}

    # -- end -------------------------------------------------------------------------------------

    def announcement(self) -> Iterable[str]:
        yield f"the installation is in {self.files.root}"

    async def __aexit__(self, *exc: object) -> None:
        await self._owner.stop()
        if self._leaves:
            await self.supervisor.leave()
        else:
            await self.supervisor.stop()
        try:
            write_json(self.files.status, self.status())
        except CredentialError as error:
            _log.warning("%s", error)
        self._control.close()
        if self._monitoring is not None:
            await self._monitoring.stop()
        self._lock.__exit__(None, None, None)
