"""The programs of `kcp envtest` end with the tests that started them, also if those are killed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from pykcp.testing.client import eventually
from pykcp.testing.server import environment
from pykcp.testing.sharded import free_ports

HOST = "127.0.0.1"
TESTS = """
import subprocess, sys, time
for words in sys.argv[1:]:
    print(subprocess.Popen([sys.executable, "-m", "pykcp", "envtest", *words.split()]).pid, flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that nobody has waited for yet is a zombie.
    return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()


def test_nothing_is_left(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "k8s_test_framework_1"
    folder.mkdir()
    port, etcd_port = free_ports(2)
    etcd = f"etcd --listen-client-urls=http://{HOST}:{etcd_port} --data-dir={folder}"
    server = f"kube-apiserver --bind-address={HOST} --secure-port={port} --cert-dir={folder}"
    with (tmp_path / "log").open("wb") as log:
        tests = subprocess.Popen(
            [sys.executable, "-c", TESTS, etcd, server],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert tests.stdout is not None
    with tests.stdout:
        programs = [int(tests.stdout.readline()) for _ in range(2)]
        eventually(lambda: "kcp is ready" in (tmp_path / "log").read_text(), 60)
        assert all(map(is_running, programs))
        tests.kill()
        tests.wait()
    eventually(lambda: not any(map(is_running, programs)), 30)
