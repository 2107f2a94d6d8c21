"""An installation of several shards from nothing to its first workspace, and its memory.

    bench/run up [--variant zheng] [--runs 3]

Prints the time of `kcp up --detach` and of a workspace made through the front-proxy by the kubectl
plugin, each from the first command on, and the memory of all processes (pages that are shared count
in part).
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from pykcp.programs.operator.drivers.process.identity import marked_processes, memory
from pykcp.programs.operator.drivers.process.replica import MARKER


def run(root: pathlib.Path, *words: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(root / ".kcp" / "admin.kubeconfig")}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def children(pid: int) -> list[int]:
    found = [
        int(child)
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    ]
    return found + [below for child in found for below in children(child)]


def processes(root: pathlib.Path) -> list[int]:
    """The supervisor, its replicas and their worker processes."""
    mark = str(root / ".kcp")
    leaders = [one.pid for one, value in marked_processes(MARKER) if value.startswith(mark)]
    supervisors = {int(_stat(pid)[1]) for pid in leaders}
    return sorted({*supervisors, *leaders, *(c for pid in leaders for c in children(pid))})


def _stat(pid: int) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def measure(root: pathlib.Path, variant: str) -> None:
    began = time.perf_counter()
    try:
        run(root, "-m", "pykcp", "up", f"--variant={variant}", "--detach")
        up = time.perf_counter() - began
        run(root, "-m", "pykcp.cli.plugins", "kubectl-create-workspace", "team")
        made = time.perf_counter() - began
        pids = processes(root)
        total = sum(map(memory, pids)) / 2**20
        print(f"up {up:.1f} s, workspace {made:.1f} s, {len(pids)} processes, {total:.0f} MiB")
    finally:
        run(root, "-m", "pykcp", "down")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--variant", default="zheng")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            measure(pathlib.Path(folder), options.variant)


if __name__ == "__main__":
    main()
