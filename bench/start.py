"""Cold start, restart with data, and memory when idle.

    bench/run start [--objects 10000]

Starts our server in a fresh directory, again on the same directory with objects on disk,
and prints the time from exec to ready, resident memory, and the CPU spent while idle.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import tempfile
import time

from load import config_map
from target import load as load_target

from pykcp.testing.server import ServerProcess


def _timed(server: ServerProcess) -> float:
    began = time.perf_counter()
    server.start()
    return time.perf_counter() - began


def _fill(server: ServerProcess, count: int) -> None:
    client = server.client(cluster="root")
    path = "/api/v1/namespaces/default/configmaps"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for reply in pool.map(
            lambda i: client.post(path, config_map(f"c{i}", "default", i)), range(count)
        ):
            assert reply.status == 201, reply


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = ServerProcess(pathlib.Path(directory) / ".kcp")
        cold = _timed(server)
        target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
        time.sleep(1)
        idle_before, memory = target.cpu(), target.memory()
        time.sleep(5)
        print(f"cold start to ready      {cold:6.2f} s")
        print(f"idle memory              {memory:6.0f} MiB")
        print(f"idle CPU over 5 s        {target.cpu() - idle_before:6.2f} s")
        _fill(server, options.objects)
        server.stop()
        print(f"restart, {options.objects} objects  {_timed(server):6.2f} s")
        server.stop()


if __name__ == "__main__":
    main()
