"""A stand-in for systemd: it starts units as their user, and notes what it is told."""

from __future__ import annotations

import os
import pathlib
import pwd
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import pykcp

USER = "nobody"
_SYSTEMCTL = """#!/bin/sh
case "$*" in
  *FragmentPath*) for name; do :; done; echo "{units}/$name" ;;
  show*) ;;
  *) echo "$*" >> {folder}/told ;;
esac
"""


def shared_python() -> tuple[str, dict[str, str]] | None:
    """An interpreter that every user may run, and the variables with which it finds kcp."""
    paths = [str(pathlib.Path(pykcp.__file__).parents[1]), sysconfig.get_paths()["purelib"]]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(paths)}
    check = [
        "-c",
        f"import sys, cryptography.x509, pykcp; assert sys.version_info[:2] == {sys.version_info[:2]}",
    ]
    account = pwd.getpwnam(USER)
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [candidate or "", *check], env=variables, user=account.pw_uid,
                group=account.pw_gid, extra_groups=[], check=True, capture_output=True,
            )  # fmt: skip
            return str(candidate), variables
    return None


class UnitRunner:
    """Runs the units of a directory."""

    def __init__(self, folder: pathlib.Path, python: str, variables: dict[str, str]) -> None:
        self.folder, self.units, self.root = folder, folder / "units", folder / "root"
        self._python = python
        # Nobody holds the ports between the writing of units and the start of their programs.
        self.port = random.randrange(10000, 18000)
        programs = folder / "bin"
        programs.mkdir()
        script = programs / "systemctl"
        script.write_text(_SYSTEMCTL.format(units=self.units, folder=folder))
        script.chmod(0o755)
        self._variables = {**variables, "PATH": f"{programs}:{variables['PATH']}"}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(30)

    def kcp(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of root."""
        return self.run([self._python, "-m", "pykcp", *words])

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self._variables, capture_output=True, text=True, timeout=120, check=False
        )

    def succeed(self, *words: str) -> str:
        done = self.kcp(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def told(self) -> str:
        path = self.folder / "told"
        return path.read_text() if path.exists() else ""

    def start(self, instance: str) -> None:
        """As its user, with nothing but what the unit says."""
        name, number = instance.removesuffix(".service").split("@")
        words = self.command(f"{name}@.service", number)
        account = pwd.getpwnam(self._setting(f"{name}@.service", "User"))
        with (self.folder / f"{name}.log").open("ab") as out:
            self._processes[instance] = subprocess.Popen(
                words, env=self._variables, user=account.pw_uid, group=account.pw_gid,
                extra_groups=[], stdout=out, stderr=out, start_new_session=True, cwd="/",
            )  # fmt: skip

    def stop(self, instance: str) -> None:
        process = self._processes.pop(instance)
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def command(self, unit: str, number: str = "0") -> list[str]:
        words = shlex.split(self._setting(unit, "ExecStart"))
        return [word.replace("%i", number).replace("%%", "%") for word in words]

    def _setting(self, unit: str, name: str) -> str:
        found = re.search(rf"^{name}=(.*)$", (self.units / unit).read_text(), re.MULTILINE)
        assert found is not None, f"{unit} has no {name}"
        return found[1]


@contextmanager
def unit_runner(python: str, variables: dict[str, str]) -> Iterator[UnitRunner]:
    # Directories of pytest are closed to other users.
    with tempfile.TemporaryDirectory(prefix="kcp-systemd-") as name:
        pathlib.Path(name).chmod(0o755)
        with UnitRunner(pathlib.Path(name), python, variables) as made:
            yield made
