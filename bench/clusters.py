"""What an empty logical cluster costs.

    bench/run clusters [--count 10000]

Creates logical clusters that hold nothing but themselves and prints what the process grew by.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import time

from target import load as load_target

from pykcp.testing.server import server as run_server

_PATH = "/apis/core.kcp.io/v1alpha1/logicalclusters"
_BODY = {
    "apiVersion": "core.kcp.io/v1alpha1",
    "kind": "LogicalCluster",
    "metadata": {"name": "cluster"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    with run_server() as server:
        target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
        client = server.client()
        before, began = target.memory(), time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for reply in pool.map(
                lambda i: client.post(f"/clusters/bench{i}{_PATH}", _BODY), range(options.count)
            ):
                assert reply.status == 201, reply
        elapsed = time.perf_counter() - began
        cpu = target.cpu()
        time.sleep(2)
        after = target.memory()
        print(f"{options.count} logical clusters in {elapsed:.1f} s")
        print(
            f"memory {before:.0f} -> {after:.0f} MiB, {(after - before) * 1024 / options.count:.2f} KiB each"
        )
        print(f"idle CPU over 2 s: {target.cpu() - cpu:.2f} s")


if __name__ == "__main__":
    main()
