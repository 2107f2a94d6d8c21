"""`kcp sharded`: a whole installation with one command, and one signal ends it."""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from pykcp.testing import programs
from pykcp.testing.client import TestClient
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
def sharded(directory: pathlib.Path, command: str, port: int) -> Iterator[None]:
    """A command line of `kcp sharded` until it is ready, on free ports, stopped as by Ctrl-C."""
    with programs.typed(command, directory, f"--secure-port={port}") as log:
        yield
    assert not _children(str(directory)), log.read_text()


def test_it_starts_serves_and_stops(tmp_path: pathlib.Path) -> None:
    port = _free_row(4)
    with sharded(tmp_path, "kcp sharded --shards=2 --root-directory=fleet", port):
        pki = tmp_path / "fleet" / "pki"
        pair = str(pki / "kcp-admin.crt"), str(pki / "kcp-admin.key")
        authority = (pki / "serving-ca.crt").read_text()
        admin = TestClient(Access(HOST, port, "", authority, "", pair))
        with closing(admin):
            names = [one["metadata"]["name"] for one in admin.get(SHARDS).json["items"]]
            assert names == ["root", "shard-1"]


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


def typed(directory: pathlib.Path, lines: Sequence[str]) -> str:
    """What a shell prints in which these are typed."""
    plugins = pathlib.Path(sys.executable).parent
    path = os.pathsep.join((str(plugins), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=directory,
        env={**environment(), "PATH": path, "HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
@needs_kubectl
def test_the_pages_for_operators(tmp_path: pathlib.Path) -> None:
    """All of their commands, in the order of the pages, as a reader would type them.

    The installation that one server grows into is the one of the other pages, too.
    """
    single, grown = blocks("from-one-shard.md", "sh server")
    (free,), port = free_ports(1), _free_row(5)
    address = f"--bind-address={HOST}", f"--secure-port={free}"
    with programs.typed(single, tmp_path, *address):
        before = typed(tmp_path, blocks("from-one-shard.md", "sh before"))
    assert "configmap/greeting created" in before
    with sharded(tmp_path, grown, port):
        _has_grown(typed(tmp_path, blocks("from-one-shard.md", "sh after")))
        _is_operated(typed(tmp_path, _of_an_installation(grown, port)))
        typed(tmp_path, [_here(blocks("backup.md")[0]).replace(".kcp", "fleet")])
    (restore,) = blocks("backup.md", "sh shard")
    assert "what was there before is in" in typed(tmp_path, [_here(restore)])


def _here(block: str) -> str:
    """With directories of the test."""
    return block.replace("/backups", "backups").replace("/var/lib/kcp", "fleet")


def _has_grown(output: str) -> None:
    assert output.endswith("\nhi\n")
    assert "shard-1" in output


def _of_an_installation(started: str, port: int) -> list[str]:
    """The pages about an installation that runs: on its ports, without the workspace it grew from."""
    (start,) = blocks("fleet.md", "sh server")
    assert set(start.split()) == set(started.split())
    fleet, placement = blocks("fleet.md"), blocks("placement.md")
    assert (len(fleet), len(placement)) == (6, 2)
    return [
        """trap 'kill $(pgrep -f -- "--shard-name=shard-2 --root-directory=$PWD/fleet"); wait' EXIT""",
        "export KUBECONFIG=fleet/admin.kubeconfig",
        "kubectl ws :root",
        "kubectl delete workspace team",
        *(one.replace("kcp sharded", f"kcp sharded --secure-port={port}") for one in fleet),
        *placement,
    ]


def _is_operated(output: str) -> None:
    assert "\nshard-1\n" in output
    assert "configmap/greeting created" in output
    assert "shard-1 does not answer" in output
    assert "configmap/without-root created" in output
    assert "configmap/without-the-cache created" in output
    assert "shard-2" in output


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
