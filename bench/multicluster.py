"""Transparent multi-cluster: scheduling, synchronization, moves and what they cost.

    python bench/multicluster.py [--rows S4,S7] [--clusters 50] [--objects 200] [--physical 2]
    python bench/multicluster.py --logical 50 --objects 1000

Rows S4 to S7 need no physical clusters: heartbeats and reports are written as syncers write them.
S8 is the syncer as a program (`bench/multicluster_sync.py`). The others run `--physical` servers as
clusters, each in a process of its own; with `--logical` S1 and S2 run with so many logical clusters of
one server as clusters. The numbers of clusters and objects are those that two cores hold; they are
printed with each row.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import multicluster_fleet
import multicluster_sync

from pykcp.multicluster.scheduling.decide import decide
from pykcp.multicluster.scheduling.model import ClusterView, Policy, Question, WorkloadView
from pykcp.testing.apis import EXPORTS, export
from pykcp.testing.binding import bind, made
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.reporting import (
    BINDINGS,
    FLAGS,
    PATHS,
    beat,
    deployment,
    leaves,
    lose,
    place,
    register,
    report,
    workspace_with,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    is_ready,
)
from pykcp.testing.server import ServerProcess, server

DEPLOYMENTS = PATHS["deployments.apps"]
QUICK = (
    "--eviction-toleration=2s",
    "--evictions-per-second=20",
    "--cluster-evictions-per-second=20",
    "--cluster-probe-interval=1s",
    "--cluster-recovery=1s",
)
_TICKS = os.sysconf("SC_CLK_TCK")


def show(row: str, what: str, **values: object) -> None:
    print(f"{row:4} {what}: " + ", ".join(f"{k} {v}" for k, v in values.items()), flush=True)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def milliseconds(values: list[float]) -> str:
    return (
        f"p50 {statistics.median(values) * 1e3:.1f} ms, p99 {percentile(values, 0.99) * 1e3:.1f} ms"
    )


def cpu_seconds(process: ServerProcess) -> float:
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(pid: int) -> float:
    """MiB."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def slowly(check: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait with few requests, so that they do not count."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def revision(client: TestClient) -> int:
    """Rises by one with each write to the server's store."""
    return int(client.get("/api/v1/namespaces").json["metadata"]["resourceVersion"])


# --- without physical clusters ---------------------------------------------------


def decisions(count: int) -> None:
    views = {
        f"c{n}": ClusterView(f"c{n}", types=frozenset(("deployments.apps",)), free={"cpu": 64_000})
        for n in range(count)
    }
    times = []
    for number in range(2000):
        workload = WorkloadView(f"uid-{number}", "deployments.apps", 20, {"cpu": 500})
        began = time.process_time()
        decide(Question(workload, Policy(strategy="Divided"), views, now=1000.0))
        times.append(time.process_time() - began)
    rate = f"{len(times) / sum(times):.0f}/s"
    show("S4", f"decisions alone, {count} clusters", rate=rate, each=milliseconds(times))


@contextmanager
def registered(count: int, *flags: str) -> Iterator[tuple[ServerProcess, TestClient]]:
    with server(*FLAGS, *QUICK, *flags) as process:
        client = workspace_with(make_cluster(process, "bench"))
        for number in range(count):
            register(client, f"c{number}", types=["deployments.apps"])
        yield process, client


def scheduling(clusters: int, objects: int) -> None:
    """CPU time is that of the server, all threads and writes included."""
    with registered(clusters) as (process, client):
        _offer(process, client, clusters, objects, 500)
    with registered(clusters) as (process, client):
        plain = workspace_with(make_cluster(process, "plain"))
        alone = _creation_alone(process, objects)
        _place_all(process, client, plain, clusters, objects)
        before, written, began = cpu_seconds(process), revision(client), time.monotonic()
        _create_many(process, "bench", objects)
        _wait_for_revision(client, written + 4 * objects)
        seconds, used = time.monotonic() - began, cpu_seconds(process) - before
        slowly(lambda: len(leaves(client)) >= objects)
        show(
            "S4",
            f"{objects} workloads created and placed on {clusters} clusters",
            cpu=f"{used / objects * 1e3:.2f} ms each, {alone / objects * 1e3:.2f} ms of it for creation",
            writes=f"{(revision(client) - written) / objects:.1f} each",
            rate=f"{objects / seconds:.0f}/s by the clock, {objects / used:.0f}/s by CPU time",
        )
        _schedule_again(process, client, objects)


def _offer(
    process: ServerProcess, client: TestClient, clusters: int, objects: int, rate: int
) -> None:
    """Workloads come at a steady rate: what a decision takes when none waits for another."""
    earlier, before, written = (
        _scheduler_time(process.client()),
        cpu_seconds(process),
        revision(client),
    )
    began = time.monotonic()
    _create_many(process, "bench", objects, rate)
    _wait_for_revision(client, written + 4 * objects)
    seconds, used = time.monotonic() - began, cpu_seconds(process) - before
    took = _scheduler_time(process.client()).since(earlier)
    show(
        "S4",
        f"{rate} workloads a second offered, {objects} in all, on {clusters} clusters",
        rate=f"{objects / seconds:.0f} Bindings/s",
        cpu=f"{used / objects * 1e3:.2f} ms each, their creation included",
        each=took.text,
    )


def _place_all(
    process: ServerProcess, fleet: TestClient, plain: TestClient, clusters: int, objects: int
) -> None:
    """Bindings alone: workloads that exist get clusters, all of them at once, as their workspace
    binds an API of the clusters' one.
    """
    for number in range(clusters):
        beat(fleet, f"c{number}", servesConsumers=True)
    made(fleet, EXPORTS, export("compute"))
    earlier, before, written = (
        _scheduler_time(process.client()),
        cpu_seconds(process),
        revision(fleet),
    )
    began = time.monotonic()
    bind(plain, fleet, "compute")
    _wait_for_revision(fleet, written + 3 * objects)
    seconds, used = time.monotonic() - began, cpu_seconds(process) - before
    slowly(lambda: len(leaves(plain)) >= objects)
    took = _scheduler_time(process.client()).since(earlier)
    show(
        "S4",
        f"{objects} workloads that exist placed on {clusters} clusters at once",
        rate=f"{objects / seconds:.0f} Bindings/s by the clock, {objects / used:.0f}/s by CPU time",
        cpu=f"{used / objects * 1e3:.2f} ms for each Binding with its event and leaf",
        each=took.text,
    )


def _wait_for_revision(client: TestClient, wanted: int) -> None:
    """Cheaper than to count objects, so that it can be asked for often."""
    deadline = time.monotonic() + 300
    while revision(client) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _creation_alone(process: ServerProcess, objects: int) -> float:
    """CPU seconds for workloads where there are no clusters."""
    before = cpu_seconds(process)
    _create_many(process, "plain", objects)
    return cpu_seconds(process) - before


def _create_many(process: ServerProcess, cluster: str, objects: int, rate: int = 0) -> None:
    """`rate`: so many a second; 0: as fast as they are answered."""
    began = time.monotonic()

    def create(first: int) -> None:
        own = process.client(cluster=cluster)
        for number in range(first, objects, 4):
            if rate:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            assert own.post(DEPLOYMENTS, deployment(f"d{number}", 1)).status == 201

    threads = [threading.Thread(target=create, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _schedule_again(process: ServerProcess, client: TestClient, objects: int) -> None:
    """Bindings alone: the workloads exist, and all Bindings are made again at once."""
    before = cpu_seconds(process)
    client.delete(BINDINGS)
    began = time.monotonic()
    slowly(lambda: _count(client, BINDINGS) >= objects)
    used = cpu_seconds(process) - before
    show(
        "S4",
        f"{objects} Bindings deleted and made again",
        cpu=f"{used / objects * 1e3:.2f} ms each, the deletion included",
        rate=f"{objects / (time.monotonic() - began):.0f}/s",
    )


class Durations(NamedTuple):
    """Of the decisions of the scheduler, each with its writes."""

    seconds: float
    count: float
    quick: float
    """How many took 10 ms at most."""

    @property
    def text(self) -> str:
        mean = self.seconds / self.count * 1e3
        return f"{mean:.1f} ms with its commit, {self.quick / self.count:.2%} within 10 ms"

    def since(self, earlier: Durations) -> Durations:
        return Durations(*(now - then for now, then in zip(self, earlier, strict=True)))


def _scheduler_time(client: TestClient) -> Durations:
    """From the metrics of the server."""
    text = client.get("/metrics", accept="text/plain").body.decode()
    head = "workqueue_work_duration_seconds"
    found = {
        part: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        for part in (f"{head}_sum", f"{head}_count", f"{head}_bucket")
        if line.startswith(part) and 'name="workload-scheduler"' in line
        if part != f"{head}_bucket" or 'le="0.01"' in line
    }
    return Durations(*(found.get(f"{head}_{part}", 0.0) for part in ("sum", "count", "bucket")))


def _count(client: TestClient, path: str) -> int:
    return len(client.get(path, limit=100_000).json["items"])


def losing(clusters: int, objects: int) -> None:
    """All workloads are in the cluster that is lost, the others are empty."""
    with registered(clusters) as (process, client):
        preferred = [{"selector": {"clusterNames": ["c0"]}, "weight": 100}]
        place(client, strategy="Single", clusterAffinity={"preferred": preferred})
        _create_many(process, "bench", objects)
        slowly(lambda: len(leaves(client)) >= objects)
        assert _in_cluster(client, "c0") == objects
        report(client)
        before, began = cpu_seconds(process), time.monotonic()
        lose(client, "c0")
        slowly(partial(_is_left, client, objects))
        used = cpu_seconds(process) - before
        show(
            "S5",
            f"1 of {clusters} clusters lost, {objects} workloads, 20 evictions a second",
            rescheduled=f"{time.monotonic() - began:.1f} s, toleration 2 s",
            cpu=f"{used / objects * 1e3:.1f} ms each",
        )


def _in_cluster(client: TestClient, cluster: str) -> int:
    """How many Bindings name it."""
    found = client.get(BINDINGS, limit=100_000).json["items"]
    return sum(any(one["name"] == cluster for one in b["spec"]["clusters"]) for b in found)


def _is_left(client: TestClient, objects: int) -> bool:
    return _count(client, BINDINGS) == objects and not _in_cluster(client, "c0")


def idling(clusters: int) -> None:
    with registered(clusters) as (process, client):
        before, began = cpu_seconds(process), time.monotonic()
        for number in range(2 * clusters):
            beat(client, f"c{number % clusters}")
            time.sleep(max(0.0, began + number * 10 / clusters - time.monotonic()))
        used = (cpu_seconds(process) - before) / (time.monotonic() - began)
        memory = f"{resident(process.pid):.0f} MiB"
        show(
            "S6",
            f"{clusters} idle clusters, a heartbeat in 10 s",
            cores=f"{used:.3f}",
            memory=memory,
        )


def reporting(clusters: int) -> None:
    with registered(clusters) as (_, client):
        client.post(DEPLOYMENTS, deployment("web", clusters))
        eventually(lambda: len(leaves(client)) == clusters, 60)
        report(client)
        writes, stopping = [0], threading.Event()
        watcher = threading.Thread(
            target=_count_changes, args=(client, writes, stopping), daemon=True
        )
        watcher.start()
        began, events = time.monotonic(), 0
        names = sorted(leaves(client))
        while time.monotonic() - began < 10:
            status = {"status": {"readyReplicas": events // clusters % 2}}
            client.patch(f"{DEPLOYMENTS}/{names[events % clusters]}/status", status)
            events += 1
            time.sleep(max(0.0, began + events / 100 - time.monotonic()))
        seconds = time.monotonic() - began
        for name in names:
            client.patch(f"{DEPLOYMENTS}/{name}/status", {"status": {"readyReplicas": 1}})
        eventually(partial(_ready, client, clusters))
        stopping.set()
        show(
            "S7",
            f"1 workload with {clusters} leaves, {events / seconds:.0f} reports a second",
            writes=f"{writes[0] / seconds:.1f} a second to the workload",
        )


def _ready(client: TestClient, wanted: int) -> bool:
    return bool(client.get(f"{DEPLOYMENTS}/web").json["status"].get("readyReplicas") == wanted)


def _count_changes(client: TestClient, writes: list[int], stopping: threading.Event) -> None:
    for _ in client.watch(DEPLOYMENTS, fieldSelector="metadata.name=web", resourceVersion="0"):
        writes[0] += 1
        if stopping.is_set():
            return


# --- with physical clusters ------------------------------------------------------


class Fleet:
    """A workspace with physical clusters of the mode Push."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.process = stack.enter_context(server(*QUICK))
        self.clusters: list[PhysicalCluster] = []
        self.client = make_cluster(self.process, "bench")
        bind_workload(self.client)
        for number in range(count):
            one = stack.enter_context(own_cluster(f"c{number}", folder))
            stack.enter_context(WorkloadController(one.client))
            self.clusters.append(one)
            body = cluster_object(one.name, kubeconfig=one.kubeconfig_text())
            assert self.client.post(CLUSTERS, body).status == 201
        for one in self.clusters:
            eventually(partial(is_ready, self.client, one.name), 60)
            eventually(partial(self._accepts, one.name), 60)

    def _accepts(self, name: str) -> bool:
        status = self.client.get(f"{CLUSTERS}/{name}").json.get("status") or {}
        synced = status.get("syncedResources") or ()
        return any(s["resource"] == "deployments" and s["state"] == "Accepted" for s in synced)

    def copies(self) -> int:
        return sum(_count(one.client, "/apis/apps/v1/deployments") for one in self.clusters)

    def ready(self) -> int:
        """Replicas that are ready, of the workloads of `cold`."""
        found = self.client.get(DEPLOYMENTS).json["items"]
        roots = [o for o in found if re.fullmatch(r"d[0-9]+", o["metadata"]["name"])]
        return sum((o.get("status") or {}).get("readyReplicas", 0) for o in roots)


def cold(fleet: Fleet, objects: int) -> None:
    count = len(fleet.clusters)
    began, before = time.monotonic(), cpu_seconds(fleet.process)
    for number in range(objects):
        fleet.client.post(DEPLOYMENTS, deployment(f"d{number}", count))
    slowly(lambda: fleet.copies() >= objects * count)
    seconds, used = time.monotonic() - began, cpu_seconds(fleet.process) - before
    slowly(lambda: fleet.ready() == objects * count)
    show(
        "S1",
        f"{count} clusters x {objects} objects cold, push, one process",
        copies=f"{objects * count / seconds:.0f}/s",
        cpu=f"{used / objects / count * 1e3:.1f} ms each",
        status=f"complete after {time.monotonic() - began:.1f} s",
        memory=f"{resident(fleet.process.pid):.0f} MiB",
    )


def steady(fleet: Fleet, objects: int, seconds: float = 10.0, rate: float = 10.0) -> None:
    """An edit is seen in the cluster, and its status in the workspace."""
    down: list[float] = []
    up: list[float] = []
    began, before, number = time.monotonic(), cpu_seconds(fleet.process), 0
    first = fleet.clusters[0].client
    while time.monotonic() - began < seconds:
        name = f"d{number % objects}"
        path = f"{DEPLOYMENTS}/{name}"
        template = {"spec": {"template": {"metadata": {"annotations": {"edit": str(number)}}}}}
        sent = time.monotonic()
        wanted = fleet.client.patch(path, template).json["metadata"]["generation"]
        eventually(partial(_has_edit, first, name, str(number)), 30)
        down.append(time.monotonic() - sent)
        eventually(partial(_has_observed, fleet.client, path, wanted), 30)
        up.append(time.monotonic() - sent)
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
    used = (cpu_seconds(fleet.process) - before) / (time.monotonic() - began)
    changes = f"{number / (time.monotonic() - began):.0f} changes a second"
    show(
        "S2",
        f"{changes}, {len(fleet.clusters)} clusters",
        down=milliseconds(down),
        back=milliseconds(up),
        cores=f"{used:.2f}",
    )


def _has_edit(client: TestClient, name: str, wanted: str) -> bool:
    query = {"fieldSelector": f"metadata.name={name}"}
    found = client.get("/apis/apps/v1/deployments", **query).json["items"]
    return any(
        (o["spec"]["template"]["metadata"].get("annotations") or {}).get("edit") == wanted
        for o in found
    )


def _has_observed(client: TestClient, path: str, wanted: int) -> bool:
    status = client.get(path).json.get("status") or {}
    return bool(status.get("observedGeneration", 0) >= wanted)


def restarting(fleet: Fleet) -> None:
    def versions() -> dict[str, str]:
        found = (
            fleet.client.get(DEPLOYMENTS).json["items"] + fleet.client.get(BINDINGS).json["items"]
        )
        copies = [
            o
            for c in fleet.clusters
            for o in c.client.get("/apis/apps/v1/deployments").json["items"]
        ]
        return {
            f"{o.get('kind')} {o['metadata']['name']} {o['metadata']['uid']}": o["metadata"][
                "resourceVersion"
            ]
            for o in (*found, *copies)
        }

    before = versions()
    while True:
        time.sleep(3)
        now = versions()
        if now == before:
            break
        before = now
    fleet.process.stop()
    fleet.process.start()
    fleet.client = fleet.process.client(cluster="bench")
    began = time.monotonic()
    for one in fleet.clusters:
        eventually(partial(is_ready, fleet.client, one.name), 60)
    ready = time.monotonic() - began
    time.sleep(10)  # time for writes that must not happen
    after = versions()
    written = sorted(name for name, version in before.items() if after.get(name) != version)
    show(
        "S3",
        f"restart with {len(before)} objects in sync",
        writes=f"{len(written)} {written[:3] or ''}",
        ready=f"{ready:.1f} s",
    )


def amplification(fleet: Fleet) -> None:
    time.sleep(3)
    count = len(fleet.clusters)
    idle = [revision(fleet.client), *(revision(c.client) for c in fleet.clusters)]
    began = time.monotonic()
    time.sleep(5)
    noise = [now - then for now, then in zip(_revisions(fleet), idle, strict=True)]
    before = _revisions(fleet)
    for number in range(10):
        fleet.client.post(DEPLOYMENTS, deployment(f"amp{number}", count))
    eventually(partial(_all_ready, fleet, 10, count), 60)
    time.sleep(max(0.0, 5 - (time.monotonic() - began - 5)))
    made = [
        now - then - quiet
        for now, then, quiet in zip(_revisions(fleet), before, noise, strict=True)
    ]
    show(
        "S10",
        f"writes for a Deployment on {count} clusters, from its creation to its status",
        upstream=f"{made[0] / 10:.1f} in total, {(made[0] / 10 - 1) / count:.1f} for each copy",
        downstream=f"{sum(made[1:]) / 10 / count:.1f} for each copy, with its namespace and status",
    )


def deleting(fleet: Fleet) -> None:
    """All copies and leaves of a workload are gone, and with them itself."""
    times = []
    for number in range(10):
        name = f"amp{number}"
        began = time.monotonic()
        fleet.client.delete(f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Foreground"})
        eventually(partial(_is_gone, fleet, name), 30)
        times.append(time.monotonic() - began)
    show("H14", f"a Deployment on {len(fleet.clusters)} clusters deleted", gone=milliseconds(times))


def _is_gone(fleet: Fleet, name: str) -> bool:
    owned = {"labelSelector": f"kcp.dev/owned-by={name}"}
    if fleet.client.get(f"{DEPLOYMENTS}/{name}").status != 404:
        return False
    if fleet.client.get(DEPLOYMENTS, **owned).json["items"]:
        return False
    query = {"fieldSelector": f"metadata.name={name}"}
    paths = (c.client.get("/apis/apps/v1/deployments", **query).json for c in fleet.clusters)
    return not any(found["items"] for found in paths)


def _revisions(fleet: Fleet) -> list[int]:
    return [revision(fleet.client), *(revision(c.client) for c in fleet.clusters)]


def _all_ready(fleet: Fleet, number: int, replicas: int) -> bool:
    found = (
        fleet.client.get(f"{DEPLOYMENTS}/amp{n}").json.get("status") or {} for n in range(number)
    )
    return all(status.get("readyReplicas") == replicas for status in found)


ROWS: dict[str, Callable[[argparse.Namespace], None]] = {
    "S4": lambda a: (decisions(a.clusters), scheduling(a.clusters, a.objects))[0],
    "S5": lambda a: losing(a.clusters, a.objects),
    "S6": lambda a: idling(a.clusters),
    "S7": lambda a: reporting(a.clusters),
}


def agent(objects: int) -> None:
    print(f"S8   the syncer as a program, {objects} objects:", flush=True)
    multicluster_sync.main(objects, 20)


def many(clusters: int, objects: int) -> None:
    """S1 and S2 with many clusters."""
    with ExitStack() as stack:
        fleet = multicluster_fleet.ManyClusters(stack, clusters, *QUICK)
        took = multicluster_fleet.cold(fleet, objects)
        show(
            "S1",
            f"{objects} Deployments on {clusters} clusters cold, push, one process",
            copies=f"{objects / took['copies']:.0f}/s",
            cpu=f"{took['cpu'] / objects * 1e3:.1f} ms each",
            status=f"complete after {took['status']:.1f} s",
            memory=f"{resident(fleet.process.pid):.0f} MiB",
        )
        down, back, cores = multicluster_fleet.steady(fleet, objects, 15.0, 20.0)
        show(
            "S2",
            f"{len(down) / 15:.0f} changes a second, {clusters} clusters",
            down=milliseconds(down),
            back=milliseconds(back),
            cores=f"{cores:.2f}",
        )


ROWS["F12"] = lambda _: multicluster_sync.killing(15)
ROWS["S8"] = lambda a: agent(a.objects)
PHYSICAL = ("S1", "S2", "S3", "S10")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--physical", type=int, default=2)
    parser.add_argument("--logical", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.logical:
        many(arguments.logical, arguments.objects)
        return
    rows = [row for row in arguments.rows.split(",") if row] or [*ROWS, *PHYSICAL]
    for row in rows:
        if row in ROWS:
            ROWS[row](arguments)
    if not set(rows) & set(PHYSICAL):
        return
    with ExitStack() as stack:
        fleet = Fleet(stack, arguments.physical)
        amplification(fleet)
        deleting(fleet)
        cold(fleet, arguments.objects)
        steady(fleet, arguments.objects)
        restarting(fleet)


if __name__ == "__main__":
    main()
