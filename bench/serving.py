"""How the gets of a shard grow with its processes (`--serving-processes`).

    python bench/serving.py [--processes 1 2] [--seconds 5] [--connections 4] [--requests 16]
                            [--cores 0.5]

The client is `h2load` (package `nghttp2-client`), the cheapest there is: it always asks for the
same object of 1.5 KB, some requests at a time on each connection. Printed are the gets per second,
the CPU time of all serving processes and of the client per get, and how evenly the processes share
the work.

The client needs a part of the machine, too: with as many processes as cores the gets per second are
limited by both together (`most`, if nothing else runs). `bound` is the ratio of that to the first
line, the largest ratio of gets per second that this machine can show: on two cores, where one
process has one of them and the client the other, it is 2 / (1 + client / CPU of a get) for two
processes, so the cheaper a get is, the smaller is the bound. `capacity` is what the processes would
serve with a core each, by the CPU time that the busiest one spends; its ratio is how the shard
itself grows, whatever the client needs.

With `--cores 0.5` each process has at most half a core, so that two of them and the client fit on
two cores: the ratio of gets per second is then measured and not calculated.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from quota import limited
from target import processes_cpu

from pykcp.testing.processes import wait_for_processes
from pykcp.testing.server import ServerProcess, server

PATH = "/clusters/root/api/v1/namespaces/default/configmaps/measured"
_WARM_UP = 20_000
_BETWEEN = 0.5
"""Seconds after which all processes have said that the connections of the warm-up are gone: until
then they count, and all new ones would go to the others."""
_WINDOW = "30"
"""Bits of the flow-control windows of the client: it never has to open them."""
_FINISHED = re.compile(r"finished in \S+, ([\d.]+) req/s").search
_SUCCEEDED = re.compile(r"status codes: (\d+) 2xx").search


class Measured(NamedTuple):
    gets: float
    """Per second."""
    cpu: float
    """Microseconds of all processes per get."""
    client: float
    """Microseconds of the client per get."""
    share: float
    """Of the CPU time that the busiest process has spent; 1 / processes is even."""

    @property
    def capacity(self) -> float:
        return 1e6 / (self.cpu * self.share)

    @property
    def most(self) -> float:
        """Gets per second that all cores of this machine could serve, the client's part included."""
        return min(self.capacity, (os.cpu_count() or 1) * 1e6 / (self.cpu + self.client))


def load(shard: ServerProcess, count: int, options: argparse.Namespace) -> Measured:
    access = shard.client().access
    pids = serving_pids(shard.pid)
    before = {pid: processes_cpu([pid]) for pid in pids}
    client = _client_cpu()
    command = [
        "h2load", f"-n{count}", f"-c{options.connections}", f"-m{options.requests}",
        f"-w{_WINDOW}", f"-W{_WINDOW}", "-Haccept: application/json",
        f"-Hauthorization: Bearer {access.token}", f"https://{access.host}:{access.port}{PATH}",
    ]  # fmt: skip
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    client = _client_cpu() - client
    finished, succeeded = _FINISHED(text), _SUCCEEDED(text)
    assert finished is not None, text
    assert succeeded is not None, text
    assert int(succeeded[1]) == count, text
    spent = [processes_cpu([pid]) - before[pid] for pid in pids if _is_there(pid)]
    total = sum(spent)
    return Measured(
        float(finished[1]), total / count * 1e6, client / count * 1e6, max(spent) / total
    )


def _client_cpu() -> float:
    """Of all clients that have ended; the servers go on."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def serving_pids(writer: int) -> list[int]:
    children = Path(f"/proc/{writer}/task/{writer}/children").read_text().split()
    return [writer, *map(int, children)]


def _is_there(pid: int) -> bool:
    """Processes for large requests end when there are none."""
    return Path(f"/proc/{pid}").exists()


def measure(processes: int, options: argparse.Namespace) -> Measured:
    with server(f"--serving-processes={processes}") as shard:
        if processes > 1:
            wait_for_processes(shard, processes)
        body = {"metadata": {"name": "measured"}, "data": {"text": "x" * 1200}}
        made = shard.client(cluster="root").post("/api/v1/namespaces/default/configmaps", body)
        assert made.status == 201, made
        with limited(serving_pids(shard.pid), options.cores):
            first = load(shard, _WARM_UP, options)
            time.sleep(_BETWEEN)
            return load(shard, int(first.gets * options.seconds), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument(
        "--cores", type=float, default=0, help="part of a core that each process may use (0: all)"
    )
    options = parser.parse_args()
    share = f", {options.cores:g} of one for each process" if options.cores else ""
    print(
        f"{os.cpu_count()} cores{share}; "
        f"{options.connections} connections x {options.requests} gets"
    )
    print(
        f"{'processes':>9} {'gets/s':>9} {'ratio':>6} {'µs CPU/get':>11} {'client':>7}"
        f" {'busiest':>8} {'most':>9} {'bound':>6} {'capacity':>9} {'ratio':>6}"
    )
    first: Measured | None = None
    for processes in options.processes:
        found = measure(processes, options)
        first = first or found
        print(
            f"{processes:9} {found.gets:9,.0f} {found.gets / first.gets:6.2f} {found.cpu:11.1f}"
            f" {found.client:7.1f} {found.share:8.0%} {found.most:9,.0f}"
            f" {found.most / first.most:6.2f} {found.capacity:9,.0f}"
            f" {found.capacity / first.capacity:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
