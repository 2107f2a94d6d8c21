"""`kcp restart`, `kcp upgrade` and `kcp down`."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import time
from typing import TYPE_CHECKING

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.programs.kit.flags import Flag

if TYPE_CHECKING:
    from pykcp.programs.operator.drivers.process.identity import ProcessIdentity

_TIMEOUT = Flag("timeout", "duration", 300.0, "How long to wait until everything is ready.")


def _restart(given: Given) -> int:
    from pykcp.cli.operate.up import wait_until_ready
    from pykcp.programs.operator.host.control import ask
    from pykcp.programs.operator.host.layout import HostFiles

    for _ in ask(given.root, "restart", names=given.words):
        pass
    return wait_until_ready(HostFiles(given.root), given.flags["timeout"])


RESTART = HostCommand(
    "Restart workloads: their processes are replaced one after the other.\n\n"
    "Usage:\n  kcp restart WORKLOAD… [flags]\n",
    _restart,
    (_TIMEOUT,),
    least=1,
)


def _down(given: Given) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.control import NotRunning, ask
    from pykcp.programs.operator.host.layout import HostFiles

    try:
        (answer,) = ask(given.root, "down")
    except NotRunning as error:
        if not given.root.is_dir():
            raise SettingsError(f"there is no installation in {given.root}") from error
        choices = HostFiles(given.root).choices()
        if choices is not None and choices.systemd:
            raise SettingsError("systemd runs the programs: stop them with systemctl") from error
        return asyncio.run(_stop_leftovers(given.root))
    return _await_end(int(answer["pid"]), given.flags["timeout"])


async def _stop_leftovers(root: pathlib.Path) -> int:
    """Stop the processes of a supervisor that was killed."""
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.supervisor import Supervisor
    from pykcp.programs.operator.host.layout import HostFiles

    with HostFiles(root).lock() as is_held:
        if not is_held:
            raise SettingsError(f"the supervisor of {root} is starting or stopping; try again")
        supervisor = Supervisor(root)
        supervisor.adopt([])
        await supervisor.stop()
    print("stopped")
    return 0


def _await_end(pid: int, seconds: float) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.identity import identify

    process, deadline = identify(pid), time.monotonic() + seconds
    with contextlib.suppress(TimeoutError):
        if process is not None:
            asyncio.run(_ended(process, deadline - time.monotonic()))
    if process is not None and process.is_alive:
        raise SettingsError(f"the supervisor (process {pid}) has not stopped after {seconds:g} s")
    print("stopped")
    return 0


async def _ended(process: ProcessIdentity, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await process.ended()


DOWN = HostCommand(
    "Stop all programs of the installation, and their supervisor. Nothing is removed.\n\n"
    "Usage:\n  kcp down [flags]\n",
    _down,
    (Flag("timeout", "duration", 120.0, "How long to wait."),),
    most=0,
)


def _upgrade(given: Given) -> int:
    """Preflight, then a rolling update: cache servers, root shard, shards, proxies."""
    from dataclasses import replace

    from pykcp.cli.operate.up import wait_until_ready
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.control import ask
    from pykcp.programs.operator.host.layout import HostChoices, HostFiles

    version, files = given.flags["to"], HostFiles(given.root)
    if not version:
        raise SettingsError("--to is required: the version to run")
    (status,) = ask(given.root, "status")
    if not status["available"] and not given.flags["force"]:
        raise SettingsError("not everything is ready; see kcp status, or use --force")
    check_version(given.root, version)
    choices = files.choices() or HostChoices()
    files.save_choices(replace(choices, version=version))
    try:
        for _ in ask(given.root, "apply"):
            pass
        return wait_until_ready(files, given.flags["timeout"])
    except SettingsError as error:
        back = choices.version or "this program's version"
        raise SettingsError(f"{error}\nto go back: kcp upgrade --to={back} --force") from error


def check_version(root: pathlib.Path, version: str) -> None:
    """Raises SettingsError unless all programs of the version can be called."""
    import subprocess

    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.commands import MODULES, is_own_version

    directory = root / "versions" / version / "bin"
    if not directory.exists():
        if is_own_version(version):
            return
        raise SettingsError(
            f"version {version} is not installed: make a virtual environment {directory.parent}"
        )
    for program in MODULES:
        done = subprocess.run(
            [directory / program, "--version"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SettingsError(f"{directory / program} cannot be run: {done.stderr.strip()}")


UPGRADE = HostCommand(
    "Run another version of the programs, replaced one after the other.\n\n"
    "Usage:\n  kcp upgrade --to=VERSION [flags]\n\n"
    "A version is a virtual environment in ROOT-DIRECTORY/versions/VERSION.\n",
    _upgrade,
    (
        Flag("to", "string", "", "Version to run."),
        Flag("force", "bool", False, "Also if not everything is ready now."),
        _TIMEOUT,
    ),
    most=0,
)
