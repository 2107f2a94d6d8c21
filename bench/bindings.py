"""An export with many consumers.

    bench/run bindings [--count 10000]

Binds one export in as many logical clusters and prints how long a single binding takes from
its creation to Bound, what all of them cost in memory and CPU, and how a change of the schema
reaches them: how long it takes, what it costs, and how long others wait for an answer meanwhile.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import statistics
import threading
import time

from target import Target
from target import load as load_target

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, binding, schema
from pykcp.testing.binding import is_bound, offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

_NEWER = "v2.cowboys.wild.west"


def _bind_one(client: TestClient, name: str) -> float:
    """Seconds from the answer to the create until a watcher sees the binding Bound."""
    inside = client.in_cluster(name)
    watch = inside.watch(BINDINGS)
    found: list[float] = []

    def follow() -> None:
        for event in watch:
            if (event["object"].get("status") or {}).get("phase") == "Bound":
                found.append(time.perf_counter())
                return

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.02)  # the watch is open
    began = time.perf_counter()
    assert inside.post(BINDINGS, binding("cowboys", "cowboys", "provider")).status == 201
    thread.join(10)
    return found[0] - began


def _single(server: ServerProcess, count: int) -> None:
    names = [f"single{i}" for i in range(count)]
    for name in names:
        make_cluster(server, name)
    client = server.client()
    took = sorted(_bind_one(client, name) for name in names)
    print(
        f"one binding, from its create to Bound: median {statistics.median(took) * 1000:.1f} ms, "
        f"longest of {count} {took[-1] * 1000:.1f} ms"
    )


def _many(server: ServerProcess, target: Target, count: int) -> None:
    client = server.client()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: make_cluster(server, f"bench{i}"), range(count)))
        eventually(lambda: client.get("/readyz").status == 200)
        time.sleep(2)
        memory, cpu, began = target.memory(), target.cpu(), time.perf_counter()
        body = binding("cowboys", "cowboys", "provider")
        for reply in pool.map(
            lambda i: client.post(f"/clusters/bench{i}{BINDINGS}", body), range(count)
        ):
            assert reply.status == 201, reply
    last = client.in_cluster(f"bench{count - 1}")
    eventually(lambda: is_bound(last), 120)
    elapsed, spent = time.perf_counter() - began, target.cpu() - cpu
    time.sleep(2)
    more = (target.memory() - memory) * 1024 / count
    print(f"{count} bindings, all Bound: {elapsed:.1f} s, {spent / count * 1e6:.0f} µs of CPU each")
    print(f"memory: {more:.2f} KiB each")


def _is_newer(client: TestClient, number: int) -> bool:
    found = client.get(f"/clusters/bench{number}{BINDINGS}/cowboys").json
    return bool(found["status"]["boundResources"][0]["schema"]["name"] == _NEWER)


def _roll_out(server: ServerProcess, target: Target, count: int) -> None:
    provider, client = server.client(cluster="provider"), server.client()
    assert provider.post(SCHEMAS, schema(_NEWER)).status == 201
    cpu, began = target.cpu(), time.perf_counter()
    change = {"spec": {"resources": [{**RESOURCE, "schema": _NEWER}]}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    waits: list[float] = []
    left = set(range(0, count, max(1, count // 200)))
    while left:
        for number in sorted(left)[:20]:
            asked = time.perf_counter()
            if _is_newer(client, number):
                left.discard(number)
            waits.append(time.perf_counter() - asked)
    elapsed, spent = time.perf_counter() - began, target.cpu() - cpu
    waits.sort()
    print(
        f"a new schema reaches {count} bindings in {elapsed:.1f} s, "
        f"{spent / count * 1e6:.0f} µs of CPU each; a get meanwhile takes "
        f"{waits[len(waits) // 2] * 1000:.1f} ms, p99 {waits[int(len(waits) * 0.99)] * 1000:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    with run_server() as server:
        target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
        provider = make_cluster(server, "provider")
        offer(provider)
        _single(server, 20)
        _many(server, target, options.count)
        _roll_out(server, target, options.count)


if __name__ == "__main__":
    main()
