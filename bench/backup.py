"""Backups of a server that is written to, and copies of large trees of workspaces.

    bench/run backup [--workspaces 1000] [--seconds 5]

Prints how long a full backup, an increment, a restore and a clone of a subtree take, and what
the writers notice.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pykcp.testing.client import TestClient
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server
from pykcp.testing.workspaces import make_workspace, post_workspace

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = 6


class Writing:
    """Writers that note how long each write took, and when."""

    def __init__(self, client: TestClient) -> None:
        self._client, self._stop = client, threading.Event()
        self.taken: list[tuple[float, float]] = []

    def write(self, writer: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            began = time.perf_counter()
            body = {"metadata": {"name": f"w{writer}-{number}"}, "data": {"x": "y" * 800}}
            assert self._client.post(MAPS, body).status == 201
            self.taken.append((began, time.perf_counter() - began))

    @contextmanager
    def running(self) -> Iterator[None]:
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            futures = [pool.submit(self.write, writer) for writer in range(WRITERS)]
            try:
                yield
            finally:
                self._stop.set()
                for future in futures:
                    future.result()

    def between(self, start: float, end: float) -> str:
        found = sorted(took for began, took in self.taken if start <= began < end)
        if not found:
            return "no writes"
        p99 = found[int(len(found) * 0.99)]
        rate = len(found) / (end - start)
        return f"{rate:.0f} writes/s, p50 {found[len(found) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"


def measure_backup(shard: ServerProcess, folder: pathlib.Path, seconds: float) -> None:
    client = shard.client(cluster="root:team")
    writing = Writing(client)
    with writing.running():
        began = time.perf_counter()
        time.sleep(seconds)
        print(f"without a backup       {writing.between(began, time.perf_counter())}")
        for name in ("full backup", "increment", "next increment"):
            began = time.perf_counter()
            code, text = kcp("backup", f"--root-directory={shard.root}", f"--to={folder / 'b'}")
            took = time.perf_counter() - began
            assert code == 0, text
            print(f"{name:22} {took:.2f} s; {writing.between(began, time.perf_counter())}")
            print(f"    {text.strip()}")
    began = time.perf_counter()
    code, text = kcp("restore", f"--from={folder / 'b'}", f"--root-directory={folder / 'r'}")
    assert code == 0, text
    print(f"restore and check      {time.perf_counter() - began:.2f} s")


def measure_clone(shard: ServerProcess, count: int) -> None:
    client = shard.client(cluster="root")
    make_workspace(client, "big")
    big = client.in_cluster("root:big")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: post_workspace(big, f"w{n}"), range(count - 1)))
    make_workspace(big, "last")
    service = shard.client()
    service.prefix = ""
    began, used = time.perf_counter(), cpu_seconds(shard.pid)
    body = {"source": "root:big", "name": "copy"}
    reply = service.post("/services/copies/clusters/root/clone", body)
    assert reply.status == 200, reply
    took = time.perf_counter() - began
    used = cpu_seconds(shard.pid) - used
    print(f"clone of {len(made) + 2} workspaces {took:.2f} s, {used:.2f} s of the server's CPU")
    first = client.in_cluster("root:copy:w0").get("/api/v1/namespaces/default")
    assert first.status == 200, first


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workspaces", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    with run_server() as shard, tempfile.TemporaryDirectory() as folder:
        make_workspace(shard.client(cluster="root"), "team")
        measure_backup(shard, pathlib.Path(folder), options.seconds)
        measure_clone(shard, options.workspaces)


if __name__ == "__main__":
    main()
