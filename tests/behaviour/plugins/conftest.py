"""The plugins as a user runs them: as programs, each user with a kubeconfig of their own."""

from __future__ import annotations

import itertools
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from pykcp.testing.server import ServerProcess, environment, server

SECONDS = 60.0
_numbers = itertools.count(1)


class Done(NamedTuple):
    """What a program printed, and how it ended."""

    out: str
    err: str
    code: int


class Shell:
    """A user in front of a terminal."""

    def __init__(self, folder: pathlib.Path, kubeconfig: pathlib.Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "config"
        shutil.copy(kubeconfig, self.kubeconfig)
        self.environment = {
            **environment(),
            "HOME": str(folder),
            "KUBECONFIG": str(self.kubeconfig),
        }

    def run(self, line: str, stdin: str = "") -> Done:
        """`ws tree -f`, `kcp bind …`, `create-workspace a`: the words behind `kubectl-`."""
        done = subprocess.run(
            [sys.executable, "-m", "pykcp.cli.plugins", *f"kubectl-{line}".split()],
            input=stdin,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Done(done.stdout, done.stderr, done.returncode)

    def __call__(self, line: str, stdin: str = "") -> str:
        """Run, expect success and silence on stderr, and return what it printed."""
        done = self.run(line, stdin)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def fails(self, line: str) -> str:
        done = self.run(line)
        assert done.code == 1, done
        assert done.out == "", done
        return done.err


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("user-token,user,1\n", encoding="utf-8")
    with server(f"--token-auth-file={tokens}") as process:
        yield process


@pytest.fixture
def shell(shard: ServerProcess, tmp_path: pathlib.Path) -> Shell:
    return Shell(tmp_path, shard.kubeconfig)


@pytest.fixture
def org(shell: Shell) -> str:
    """The name of a workspace of this test's own below root; the shell is in it."""
    name = f"org{next(_numbers)}"
    shell(f"create-workspace {name} --enter")
    return name


@pytest.fixture
def without_port() -> Callable[[str], str]:
    return lambda text: re.sub(r"https://[0-9.]+:\d+", "https://SERVER", text)
