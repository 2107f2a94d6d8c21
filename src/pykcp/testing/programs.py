"""Programs other than `kcp start` as processes, and settings of shards in a test's own process."""

from __future__ import annotations

import pathlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pykcp.programs.shard.settings import ShardSettings
from pykcp.testing.client import eventually
from pykcp.testing.server import ServerProcess, environment


@contextmanager
def serving(module: str, log: pathlib.Path, *words: str) -> Iterator[int]:
    """A module that runs as a server and says so in its log; its port."""
    with log.open("wb") as out:
        command = [sys.executable, "-m", module, *words]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
    try:
        yield int(eventually(lambda: re.search(r"serving on .*:(\d+)", log.read_text()))[1])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()


@contextmanager
def typed(command: str, folder: pathlib.Path, *flags: str) -> Iterator[pathlib.Path]:
    """A command line as a page shows it, with flags of a test, once it is ready; its log.

    It is stopped as by Ctrl-C.
    """
    log = folder / "program.log"
    program, *words = shlex.split(command.replace("\\\n", " "))
    module = "pykcp" if program == "kcp" else f"pykcp.cli.{program.replace('-', '_')}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words, *flags],
            cwd=folder,
            stdout=out,
            stderr=out,
            env=environment(),
        )
    try:
        eventually(lambda: " is ready\n" in log.read_text() or process.poll() is not None, 60)
        assert process.poll() is None, log.read_text()
        yield log
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 0, log.read_text()


def kcp(*words: str) -> tuple[int, str]:
    """A command of `kcp` that ends by itself: its exit code, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "pykcp", *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def shard_settings(root: pathlib.Path, *flags: str) -> ShardSettings:
    """Settings on a free port of this machine, as if the flags were on the command line."""
    settings, _ = ShardSettings.parse(
        [
            f"--root-directory={root}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--experimental-bind-free-port",
            *flags,
        ]
    )
    return settings.checked()


def fsck(shard: ServerProcess) -> tuple[int, str]:
    """`kcp admin fsck` on a server's directory."""
    return kcp("admin", "fsck", f"--root-directory={shard.root}")
