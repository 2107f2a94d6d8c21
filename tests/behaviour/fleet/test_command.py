"""`kcp sharded`: a whole installation with one command, and one signal ends it."""

from __future__ import annotations

import pathlib
import signal
import socket
import subprocess
import sys

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import environment
from pykcp.testing.sharded import HOST, free_ports

SHARDS = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"


def _free_row(number: int) -> int:
    """The first of some ports in a row that are free now."""
    while True:
        first = free_ports(1)[0]
        wanted = range(first, first + number)
        if wanted[-1] < 65536 and all(_is_free(port) for port in wanted):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((HOST, port)) != 0


def test_it_starts_serves_and_stops(tmp_path: pathlib.Path) -> None:
    port = _free_row(4)
    log = tmp_path / "log"
    words = ["sharded", "--shards=2", f"--root-directory={tmp_path / 'kcp'}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pykcp", *words, f"--secure-port={port}"],
            stdout=out,
            stderr=out,
            env=environment(),
        )
    try:
        eventually(lambda: "kcp sharded is ready" in log.read_text(), 60)
        pki = tmp_path / "kcp" / "pki"
        pair = str(pki / "kcp-admin.crt"), str(pki / "kcp-admin.key")
        authority = (pki / "serving-ca.crt").read_text()
        admin = TestClient(Access(HOST, port, "", authority, "", pair))
        names = [one["metadata"]["name"] for one in admin.get(SHARDS).json["items"]]
        assert names == ["root", "shard-1"]
        admin.close()
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 0, log.read_text()
    assert not list(_children(str(tmp_path / "kcp")))


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
