"""The life of `kcp sharded`: start all programs, restart those that end, stop all of them."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.kit.run import run_program
from pykcp.programs.sharded.files import FleetFiles
from pykcp.programs.sharded.members import FleetMember, fleet_members
from pykcp.programs.sharded.settings import ShardedSettings

_log = logging.getLogger(__name__)
_ASK_AGAIN = 0.05
_RESTART_PAUSE = 1.0
_SHARDS = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"
_MOST_BYTES = 8 << 20


def run(settings: ShardedSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    if settings.fleet.print_commands:
        for member in _members(settings):
            words = (member.program, *member.words)
            print(shlex.join(words))  # noqa: T201  # what was asked for
        return 0
    return run_program(running_fleet(settings), settings.logging, warnings)


def _members(settings: ShardedSettings) -> Iterator[FleetMember]:
    """The programs of an installation whose files are written."""
    files = FleetFiles(settings.generic.make_root(), settings.fleet.addresses)
    files.make(time.time())
    return fleet_members(files, settings.fleet.shard_flags, settings.fleet.proxy_flags)


class _Child:
    """One program of the installation, as a process."""

    def __init__(self, member: FleetMember, log: pathlib.Path) -> None:
        self.member, self.log = member, log
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        member = self.member
        with self.log.open("ab") as out:
            # A session of its own: Ctrl-C reaches this process alone, which stops the others in order.
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", member.module, *member.words,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    async def keep(self) -> None:
        """Until cancelled: start it again whenever it ends."""
        while True:
            assert self.process is not None
            code = await self.process.wait()
            _log.error("%s ended with code %d, see %s", self.member.name, code, self.log)
            await asyncio.sleep(_RESTART_PAUSE)
            await self.start()

    async def stop(self, seconds: float) -> None:
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            _log.warning("%s does not stop and is killed", self.member.name)
            process.kill()
            await process.wait()


class running_fleet:  # noqa: N801  # a context, as those of other programs
    """The started programs, as a context."""

    NAME = "kcp sharded"

    def __init__(self, settings: ShardedSettings) -> None:
        self._settings = settings
        self.files = FleetFiles(settings.generic.root_directory, settings.fleet.addresses)
        self._owner = TaskOwner("sharded")
        self._children: list[_Child] = []

    async def __aenter__(self) -> FleetFiles:
        files = self.files
        for member in _members(self._settings):
            self._children.append(_Child(member, files.directory / f"{member.name}.log"))
        await self._owner.__aenter__()
        try:
            for child in self._children:
                await child.start()
            await asyncio.gather(*(self._until_ready(child) for child in self._children))
            await self._until_registered()
        except BaseException:  # a failed start must leave nothing behind
            await self.__aexit__()
            raise
        for child in self._children:
            self._owner.start_restartable(child.member.name, child.keep)
        return files

    async def _until_ready(self, child: _Child) -> None:
        trust = Trust.of_files(self.files.authority("serving"))
        async with self._client(child.member.port, trust) as client:
            await self._until(
                lambda: self._is_ready(client, child),
                f"{child.member.name} is not ready, see {child.log}",
            )

    async def _until_registered(self) -> None:
        """Until the front-proxy shows every shard: each registers itself after its start."""
        files = self.files
        trust = Trust.of_files(
            files.authority("serving"), files.certificate("kcp-admin"), files.key("kcp-admin")
        )
        async with self._client(files.addresses.proxy, trust) as client:
            await self._until(
                lambda: self._are_registered(client),
                f"some shards have not registered, see the logs in {files.directory}",
            )

    def _client(self, port: int, trust: Trust) -> HttpClient:
        return HttpClient(Server("https", self.files.addresses.host, port, trust))

    async def _until(self, check: Callable[[], Awaitable[bool]], failure: str) -> None:
        try:
            async with asyncio.timeout(self._settings.start_seconds):
                while not await check():  # noqa: ASYNC110  # another process
                    await asyncio.sleep(_ASK_AGAIN)
        except TimeoutError:
            raise SettingsError(failure) from None

    async def _is_ready(self, client: HttpClient, child: _Child) -> bool:
        assert child.process is not None
        if child.process.returncode is not None:
            raise SettingsError(f"{child.member.name} has ended, see {child.log}")
        return await _read(client, "/readyz") is not None

    async def _are_registered(self, client: HttpClient) -> bool:
        body = await _read(client, _SHARDS)
        items = json.loads(body)["items"] if body is not None else ()
        return {one["metadata"]["name"] for one in items}.issuperset(self.files.addresses.names)

    def announcement(self) -> Iterable[str]:
        at, kubeconfig = self.files.addresses, self.files.admin_kubeconfig
        for child in self._children:
            yield f"{child.member.name} serves on {at.host}:{child.member.port}, log {child.log}"
        yield f"admin kubeconfig is {kubeconfig}; try: kubectl --kubeconfig={kubeconfig} get shards"

    async def __aexit__(self, *exc: object) -> None:
        await self._owner.stop()
        seconds = self._settings.stop_seconds
        for child in reversed(self._children):  # the proxy first: requests end where they began
            await child.stop(seconds)


async def _read(client: HttpClient, path: str) -> bytes | None:
    """What the server answers; None if it does not answer 200."""
    try:
        response = await client.request("GET", path)
        body = await response.read(_MOST_BYTES)
    except SendFailed:
        return None
    return body if response.status == 200 else None
