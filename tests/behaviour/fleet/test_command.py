"""`kcp sharded`: a whole installation with one command, and one signal ends it."""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import environment
from pykcp.testing.sharded import HOST, free_ports

SHARDS = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"


def _free_row(number: int) -> int:
    """The first of some ports in a row that are free, below those that connections take."""
    while True:
        first = random.randrange(10_000, 32_000)
        if all(_is_free(port) for port in range(first, first + number)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOST, port))
        except OSError:
            return False
        return True


@contextmanager
def sharded(directory: pathlib.Path, port: int) -> Iterator[pathlib.Path]:
    """`kcp sharded` until it is ready, stopped as by Ctrl-C; its directory."""
    root, log = directory / "fleet", directory / "log"
    words = ["sharded", "--shards=2", f"--root-directory={root}", f"--secure-port={port}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pykcp", *words], stdout=out, stderr=out, env=environment()
        )
    try:
        eventually(lambda: "kcp sharded is ready" in log.read_text(), 60)
        yield root
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 0, log.read_text()


def test_it_starts_serves_and_stops(tmp_path: pathlib.Path) -> None:
    port = _free_row(4)
    with sharded(tmp_path, port) as root:
        pki = root / "pki"
        pair = str(pki / "kcp-admin.crt"), str(pki / "kcp-admin.key")
        authority = (pki / "serving-ca.crt").read_text()
        admin = TestClient(Access(HOST, port, "", authority, "", pair))
        with closing(admin):
            names = [one["metadata"]["name"] for one in admin.get(SHARDS).json["items"]]
            assert names == ["root", "shard-1"]
    assert not _children(str(root))


def _children(directory: str) -> list[int]:
    """Processes whose command line names the directory."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if directory in line:
            found.append(int(entry.name))
    return found


PAGES = pathlib.Path(__file__).parents[3] / "docs" / "operate"
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="there is no kubectl on this machine"
)


def blocks(page: str, fence: str = "sh") -> list[str]:
    """The blocks of a page with this fence."""
    text = (PAGES / page).read_text()
    return re.findall(rf"^```{fence}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def typed(directory: pathlib.Path, lines: Sequence[str], **variables: str) -> str:
    """What a shell prints in which these are typed."""
    programs = pathlib.Path(sys.executable).parent  # the plug-ins are installed there
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=directory,
        env={**environment(), "PATH": path, "HOME": str(directory), **variables},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_kubectl
def test_the_pages_for_operators(tmp_path: pathlib.Path) -> None:
    """All of their shell blocks, in order, in one shell, as a reader would type them."""
    fleet, placement = blocks("fleet.md"), blocks("placement.md")
    assert (len(fleet), len(placement)) == (6, 2)
    port = _free_row(5)
    lines = ("trap 'kill $(jobs -p); wait' EXIT", *fleet, *placement)
    with sharded(tmp_path, port):
        output = typed(tmp_path, lines, PORT=str(port))
    assert "\nshard-1\n" in output
    assert "configmap/greeting created" in output
    assert "shard-1 does not answer" in output
    assert "configmap/without-root created" in output
    assert "configmap/without-the-cache created" in output
    assert "shard-2" in output


@contextmanager
def single_server(directory: pathlib.Path) -> Iterator[None]:
    """The server of the page about growth."""
    (port,) = free_ports(1)
    root = directory / "fleet" / "root"
    log = directory / "single.log"
    words = ["start", f"--root-directory={root}", f"--bind-address={HOST}", f"--secure-port={port}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pykcp", *words], stdout=out, stderr=out, env=environment()
        )
    try:
        eventually(lambda: "kcp is ready" in log.read_text(), 60)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.mark.slow
@needs_kubectl
def test_growing_from_one_server(tmp_path: pathlib.Path) -> None:
    with single_server(tmp_path):
        assert "configmap/greeting created" in typed(
            tmp_path, blocks("from-one-shard.md", "sh before")
        )
    with sharded(tmp_path, _free_row(4)):
        output = typed(tmp_path, blocks("from-one-shard.md", "sh after"))
    assert output.endswith("\nhi\n")
    assert "shard-1" in output


def test_bad_numbers_are_refused(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp", "sharded", "--shards=0", "--secure-port=65535"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: --shards must be between 1 and 64",
        "Error: --secure-port must leave room for the ports of the shards and the cache server",
    ]
