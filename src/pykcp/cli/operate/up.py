"""`kcp up`: run an installation on this host."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import refuse
from pykcp.machinery.conditions import find

if TYPE_CHECKING:
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.layout import HostChoices, HostFiles
    from pykcp.programs.operator.host.process import running_host
    from pykcp.programs.operator.host.settings import UpSettings
    from pykcp.types import Object

USAGE = """Run an installation on this host: root shard, shards, cache servers and front-proxies.

The programs are described by manifests (kinds RootShard, Shard, FrontProxy, CacheServer,
VirtualWorkspace and Kubeconfig). They are started, watched, restarted and updated as the
manifests change. If a supervisor is running already, it applies the manifests.

Usage:
  kcp up [DIRECTORY] [flags]        from manifests
  kcp up --variant=dekker [flags]   from nothing
"""


def main(words: Sequence[str]) -> int:
    from pykcp.programs.kit.errors import USER_ERRORS, SettingsError
    from pykcp.programs.kit.flags import FlagError
    from pykcp.programs.operator.host.settings import UpSettings

    if any(word in ("--help", "-h") for word in words):
        print(USAGE + UpSettings.flag_set().usage(), end="")
        return 0
    try:
        settings, warnings = UpSettings.parse(_with_directory(words))
        settings.checked()
        return _up(settings, warnings)
    except (FlagError, SettingsError) as error:
        return refuse(str(error).splitlines())
    except USER_ERRORS as error:
        return refuse([str(error)])


def _with_directory(words: Sequence[str]) -> list[str]:
    """A first word that is not a flag is the directory of manifests."""
    if words and not words[0].startswith("-"):
        return [f"--filename={words[0]}", *words[1:]]
    return list(words)


def _up(settings: UpSettings, warnings: Iterable[str]) -> int:
    from pykcp.programs.operator.host.control import is_running
    from pykcp.programs.operator.host.installation import Installation
    from pykcp.programs.operator.host.layout import HostFiles

    if settings.up.systemd:
        from pykcp.cli.operate.systemd import up_with_systemd

        return up_with_systemd(settings)
    files = HostFiles(settings.generic.make_root())
    _check_units(files)
    choices = choose(settings, files)
    installation = Installation(files, choices)
    installation.check()
    if is_running(files.root):
        files.save_choices(choices)
        return _apply(files, settings.up.timeout)
    files.save_choices(choices)
    if settings.up.detach:
        return _detach(files, settings)
    return _run(installation, settings, warnings)


def _check_units(files: HostFiles) -> None:
    """Programs of systemd and those of a supervisor would be in each other's way."""
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.systemd import live_status

    status = live_status(files) or {"workloads": []}
    running = [one["name"] for one in status["workloads"] if one["ready"]]
    if running:
        raise SettingsError(
            f"systemd runs {', '.join(running)}: call kcp up with --systemd, as before, or disable "
            "the units first"
        )


def choose(settings: UpSettings, files: HostFiles) -> HostChoices:
    """What was given now, over what was given before."""
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.layout import HostChoices
    from pykcp.programs.operator.host.settings import UpOptions
    from pykcp.programs.operator.variants import write_variant

    given, default = settings.up, UpOptions()
    before = files.choices() or HostChoices()
    changes: dict[str, Any] = {
        name: getattr(given, name)
        for name in (
            "host",
            "bind_address",
            "exposed_address",
            "first_port",
            "host_names",
            "metrics_bind_address",
        )
        if getattr(given, name) != getattr(default, name)
    }
    # Who runs the programs is not kept: a call without the flag runs them itself.
    changes["systemd"] = str(pathlib.Path(given.systemd).absolute()) if given.systemd else ""
    changes["systemd_user"] = given.systemd_user
    if given.filename:
        changes["manifests"] = str(pathlib.Path(given.filename).absolute())
    elif given.variant:
        write_variant(given.variant, files.manifests, given.domain)
        changes["manifests"] = str(files.manifests)
    chosen = replace(before, **changes)
    if not chosen.manifests and files.manifests.is_dir():
        chosen = replace(chosen, manifests=str(files.manifests))
    if not chosen.manifests and not any(files.imported.glob("*.json")):
        raise SettingsError(
            "no manifests: name a file or directory with --filename, or begin with --variant=dekker"
        )
    return chosen


# -- in the foreground -------------------------------------------------------------------------


def _run(installation: Installation, settings: UpSettings, warnings: Iterable[str]) -> int:
    from pykcp.programs.kit.run import run_program
    from pykcp.programs.operator.host.process import running_host

    class shown_host(running_host):  # noqa: N801  # a context, as those of other programs
        """The installation, with its progress on standard output."""

        async def __aenter__(self) -> HostFiles:
            made = await super().__aenter__()
            self._owner.start_restartable("progress", lambda: _show(self))
            return made

    program = shown_host(installation, leaves=settings.up.leave_running)
    return run_program(program, settings.logging, warnings)


async def _show(host: running_host) -> None:
    from pykcp.cli.operate.progress import StartProgress

    progress = StartProgress()
    last: object = None
    while not host.is_available or last is None:
        shown = host.reports()
        if shown != last:
            progress.show([one.to_object() for one in shown])
            last = shown
        if host.is_available:
            break
        await host.supervisor.until(lambda: host.reports() != shown or host.is_available)  # noqa: B023
    progress.show([one.to_object() for one in host.reports()])
    progress.done(len(host.reports()), _kubeconfig(host.files))
    await asyncio.Event().wait()  # restarts are logged; there is nothing more to show


def _kubeconfig(files: HostFiles) -> str:
    path = files.admin_kubeconfig
    return str(path) if path.exists() else ""


# -- in the background -------------------------------------------------------------------------


def _detach(files: HostFiles, settings: UpSettings) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.drivers.process.logfiles import last_lines, open_log
    from pykcp.programs.operator.host.control import is_running

    words = [f"--root-directory={files.root}", f"-v={max(settings.logging.verbosity, 2)}"]
    if settings.up.leave_running:
        words.append("--leave-running")
    out = open_log(files.log)
    start = os.fstat(out).st_size
    process = subprocess.Popen(
        [sys.executable, "-m", "pykcp", "up", *words],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        start_new_session=True,
    )
    os.close(out)
    deadline = time.monotonic() + settings.up.timeout
    while not is_running(files.root):
        if process.poll() is not None:
            lines = "\n".join(last_lines(files.log, 10, start))
            raise SettingsError(
                f"the supervisor has ended with code {process.returncode}:\n{lines}"
            )
        if time.monotonic() > deadline:
            raise SettingsError(f"the supervisor does not answer, see {files.log}")
        time.sleep(0.05)
    process.returncode = 0  # it goes on without this process
    return wait_until_ready(files, settings.up.timeout)


def _apply(files: HostFiles, seconds: float) -> int:
    from pykcp.programs.operator.host.control import ask

    for _ in ask(files.root, "apply", seconds):
        pass
    return wait_until_ready(files, seconds)


def wait_until_ready(files: HostFiles, seconds: float) -> int:
    """Show how it goes until everything is ready; the exit code."""
    from pykcp.cli.operate.progress import StartProgress
    from pykcp.cli.operate.status import waiting_lines
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.control import ask

    progress, deadline = StartProgress(), time.monotonic() + seconds
    status: dict[str, Any] = {}
    try:
        for status in ask(files.root, "wait", seconds):
            progress.show(status["workloads"])
            if time.monotonic() > deadline:
                break
    except TimeoutError:
        pass
    if not status.get("available"):
        reasons = [*status.get("problems", ()), *_unavailable(status), *waiting_lines(status)]
        raise SettingsError("\n".join([f"not everything is ready after {seconds:g} s", *reasons]))
    progress.done(len(status["workloads"]), _kubeconfig(files))
    return 0


def _unavailable(status: Object) -> Iterator[str]:
    """Workloads that are not ready, and why."""
    for one in status.get("workloads", ()):
        if not one["available"]:
            available = find(one["conditions"], "Available") or {}
            yield f"{one['name']}: {available.get('message', '')}"
