"""An export whose consumers are on all shards: how long a new schema takes to reach all of them.

bench/run fleet_schema [--shards 2] [--count 10000]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

from fleet import say
from target import processes_cpu

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, binding, schema
from pykcp.testing.binding import is_bound, offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import make_workspace

_LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
_NEWER = "v2.cowboys.wild.west"
_SAMPLES = 400
"""Bindings that are asked for."""


def consumers(fleet: Fleet, count: int) -> list[tuple[TestClient, str]]:
    """A client of the shard, and the name of a logical cluster there."""
    clients = [fleet.client(name) for name in fleet.shards]
    return [(clients[number % len(clients)], f"consumer{number}") for number in range(count)]


def bind(client: TestClient, name: str, provider: str) -> None:
    inside = client.in_cluster(name)
    cluster = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": "cluster"},
        "spec": {},
    }
    for path, body in (
        (_LOGICAL_CLUSTERS, cluster),
        (BINDINGS, binding("cowboys", "cowboys", provider)),
    ):
        made = inside.post(path, body)
        assert made.status == 201, made


def is_newer(client: TestClient, name: str) -> bool:
    found = client.in_cluster(name).get(f"{BINDINGS}/cowboys").json
    return bool(found["status"]["boundResources"][0]["schema"]["name"] == _NEWER)


def waiting(left: Sequence[tuple[TestClient, str]]) -> Iterator[tuple[TestClient, str]]:
    """Those that do not have it yet; the rest is asked later if the first ones are among them."""
    for number, (client, name) in enumerate(left):
        if not is_newer(client, name):
            yield from left[number:]
            return


def run(fleet: Fleet, count: int) -> None:
    provider = fleet.client(cluster="root").in_cluster(
        make_workspace(fleet.client(cluster="root"), "provider")["spec"]["cluster"]
    )
    offer(provider)
    all_ = consumers(fleet, count)
    name = provider.prefix.rpartition("/")[2]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: bind(*one, name), all_))
    for client, consumer in all_[-len(fleet.shards) :]:
        eventually(lambda c=client, n=consumer: is_bound(c.in_cluster(n)), 120)
    pids = [process.pid for process in fleet.processes.values()]
    spent, began = processes_cpu(pids), time.perf_counter()
    assert provider.post(SCHEMAS, schema(_NEWER)).status == 201
    change = {"spec": {"resources": [{**RESOURCE, "schema": _NEWER}]}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    left = all_[:: count // _SAMPLES | 1]  # odd: of all shards
    while left := list(waiting(left)):
        time.sleep(0.05)
    seconds, spent = time.perf_counter() - began, processes_cpu(pids) - spent
    say(
        "new schema",
        f"at {count} bindings on {len(fleet.shards)} shards after {seconds:.1f} s, "
        f"{spent / count * 1e3:.2f} ms of CPU each",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--count", type=int, default=10_000, help="consumers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykcp-schema-") as folder:
        fleet = Fleet(pathlib.Path(folder), options.shards)
        try:
            fleet.start()
            run(fleet, options.count)
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                fleet.stop()


if __name__ == "__main__":
    main()
