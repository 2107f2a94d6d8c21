"""Backups of a server that is written to, and copies of large trees of workspaces.

    bench/run backup [--store sqlite,etcd] [--rate 500] [--objects 10000] [--workspaces 1000]

Writers make that many writes per second (0: as many as they can) to a store that holds that many
objects already. Prints how long a full backup, an increment, a restore and a clone of a subtree
take, and what the writers notice. Every object of the restored store is compared with what was
acknowledged.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pykcp.storage.testing import EtcdProcess
from pykcp.testing.client import TestClient
from pykcp.testing.moving.journals import MAPS, Journal, journaled_maps
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server
from pykcp.testing.workspaces import make_workspace, post_workspace

WRITERS = 16


def latencies(journal: Journal, start: float, end: float) -> str:
    """The writes between two times."""
    found = sorted(took for began, took in journal.taken if start <= began < end)
    if not found:
        return "no writes"
    p50, p99 = found[len(found) // 2] * 1e3, found[int(len(found) * 0.99)] * 1e3
    rate = journal.rate(start, end)
    return f"{rate:.0f} writes/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


@contextmanager
def served(root: pathlib.Path, *flags: str) -> Iterator[ServerProcess]:
    process = ServerProcess(root, flags).start()
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def store_flags(kind: str, folder: pathlib.Path) -> Iterator[tuple[str, ...]]:
    """Flags of a new store."""
    if kind == "sqlite":
        yield ()
        return
    etcd = EtcdProcess(folder)
    etcd.start()
    try:
        yield (f"--etcd-servers={etcd.url}",)
    finally:
        etcd.kill()


def measure_backup(kind: str, folder: pathlib.Path, options: argparse.Namespace) -> None:
    """Write all the time, back up meanwhile, restore into another store, compare every object."""
    with store_flags(kind, folder / "etcd") as flags, store_flags(kind, folder / "other") as others:
        with served(folder / "first", *flags) as shard:
            make_workspace(shard.client(cluster="root"), "team")
            before = fill(shard, options.objects)
            with Journal(shard.client(cluster="root:team"), WRITERS, options.rate) as journal:
                back_up(shard, journal, folder / "b", options.seconds)
        began = time.perf_counter()
        words = (f"--from={folder / 'b'}", f"--root-directory={folder / 'r'}", *others)
        code, text = kcp("restore", *words)
        assert code == 0, text
        print(f"restore and check      {time.perf_counter() - began:.2f} s")
        (member,) = json.loads((folder / "b" / "backup.json").read_text())["members"]
        until = member["segments"][-1]["until"]
        with served(folder / "r", *others) as shard:
            found = journaled_maps(shard.client(cluster="root:team"))
            compared = journal.check(until, found, renumbered=kind == "etcd")
            assert uids_and_data(shard.client(cluster="root:filled")) == before
    print(
        f"compared               {compared} objects of {journal.count} writes and {len(before)}"
        " others: none missing or torn"
    )


def fill(shard: ServerProcess, count: int) -> dict[str, str]:
    make_workspace(shard.client(cluster="root"), "filled")
    client = shard.client(cluster="root:filled")
    bodies = [{"metadata": {"name": f"f{n}"}, "data": {"x": f"{n} " * 200}} for n in range(count)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for reply in pool.map(lambda body: client.post(MAPS, body), bodies):
            assert reply.status == 201, reply
    return uids_and_data(client)


def uids_and_data(client: TestClient) -> dict[str, str]:
    items = client.get(MAPS).json["items"]
    return {one["metadata"]["uid"]: json.dumps(one["data"]) for one in items}


def back_up(shard: ServerProcess, journal: Journal, to: pathlib.Path, seconds: float) -> None:
    began = time.perf_counter()
    time.sleep(seconds)
    print(f"without a backup       {latencies(journal, began, time.perf_counter())}")
    words = ("backup", f"--root-directory={shard.root}", f"--to={to}")
    measure_commands("full backup", journal, words, 0)
    measure_commands("increments", journal, words, seconds)


def measure_commands(name: str, journal: Journal, words: tuple[str, ...], seconds: float) -> None:
    """Run a command once, or one after the other for some time; what it takes, and writers see."""
    began, used, count, text = time.perf_counter(), children_seconds(), 0, ""
    while not count or time.perf_counter() - began < seconds:
        code, text = kcp(*words)
        assert code == 0, text
        count += 1
    end, used = time.perf_counter(), children_seconds() - used
    took, seen = (end - began) / count, latencies(journal, began, end)
    print(f"{name:22} {count} of {took:.2f} s, {used / count:.2f} s of CPU each; {seen}")
    print(f"    the last: {text.strip()}")


def children_seconds() -> float:
    """User and system time of processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--store", default="sqlite,etcd")
    options = parser.parse_args()
    for kind in options.store.split(","):
        print(f"-- {kind}")
        with tempfile.TemporaryDirectory() as folder:
            measure_backup(kind, pathlib.Path(folder), options)
    if options.workspaces:
        with run_server() as shard:
            measure_clone(shard, options.workspaces)


if __name__ == "__main__":
    main()
