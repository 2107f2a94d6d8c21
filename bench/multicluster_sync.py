"""How a syncer performs as a program of its own: one cluster, N Deployments.

    python bench/multicluster_sync.py [objects] [changes]

cold     from the start of the syncer until all objects have copies and statuses
writes   to both servers per object that was created, and per change
lag      from a change in the workspace to its copy, and from a status to the workspace
restart  with everything in sync: writes, and time until the syncer reports
idle     memory and CPU of the syncer
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.checker import Checker
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.faults import HttpFaults
from pykcp.testing.multicluster.kills import kills
from pykcp.testing.multicluster.syncers import (
    SyncerProcess,
    deployment,
    running,
    serve_workloads,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object
from pykcp.testing.server import server
from pykcp.testing.workspaces import inside, make_workspace

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RATE = 20.0
"""Changes in a second."""


def main(objects: int = 500, changes: int = 100) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        server() as hub,
        own_cluster("east", pathlib.Path(name)) as physical,
    ):
        root = hub.client(cluster="root")
        make_workspace(root, "bench")
        workspace = inside(root, "bench")
        bind_workload(workspace)
        serve_workloads(workspace, "deployments.apps")
        workspace.post(CLUSTERS, cluster_object("east", mode="None"))
        for number in range(objects):
            workspace.post(DEPLOYMENTS, deployment(f"web-{number}", "east"))
        with (
            HttpFaults(physical.client.access) as down,
            HttpFaults(replace(workspace.access, path=workspace.prefix)) as up,
        ):
            syncer = SyncerProcess(
                pathlib.Path(name),
                "east",
                up.access,
                physical.kubeconfig_text(down.port, down.authority),
                ("deployments.apps", "configmaps"),
                ("--lease-duration=60s",),
            )
            with running(syncer):
                _measure(workspace, physical, syncer, (up, down), objects, changes)


def killing(points: int) -> None:
    """SIGKILL of the server, the syncer or the cluster: seconds from its restart until everything is
    as it should be again.
    """
    with (
        tempfile.TemporaryDirectory() as name,
        server() as hub,
        own_cluster("east", pathlib.Path(name)) as physical,
    ):
        root = hub.client(cluster="root")
        make_workspace(root, "bench")
        workspace = inside(root, "bench")
        bind_workload(workspace)
        serve_workloads(workspace, "deployments.apps")
        workspace.post(CLUSTERS, cluster_object("east", mode="None"))
        syncer = SyncerProcess(
            pathlib.Path(name),
            "east",
            replace(workspace.access, path=workspace.prefix),
            physical.kubeconfig_text(),
            ("deployments.apps",),
            (),
        )
        assert physical.process is not None
        victims = {"server": hub, "syncer": syncer, "cluster": physical.process}
        checker = Checker(workspace, {"east": physical.client}, ("deployments.apps",))
        took: dict[str, list[float]] = {one: [] for one in victims}
        with running(syncer), WorkloadController(physical.client):
            for victim in kills(workspace, "east", tuple(victims.values()), points, seed=4):
                physical.client.drop()
                began = time.monotonic()
                wait(lambda: not checker.problems(), 60)
                took[next(n for n, v in victims.items() if v is victim)].append(
                    time.monotonic() - began
                )
        for which, times in took.items():
            if times:
                print(
                    f"F12  {which} killed {len(times)} times: all is right after "
                    f"{statistics.median(times):.1f} s, at most {max(times):.1f} s"
                )


def _measure(
    workspace: TestClient,
    physical: PhysicalCluster,
    syncer: SyncerProcess,
    links: tuple[HttpFaults, HttpFaults],
    objects: int,
    changes: int,
) -> None:
    began = time.monotonic()
    wait(lambda: len(copies(physical)) == objects)
    wait(lambda: writes(links[0]) >= 2 * objects)
    print(f"cold      {objects} objects in {time.monotonic() - began:.1f} s")
    print(
        f"writes    {writes(links[0]) / objects:.2f} in the workspace and "
        f"{writes(links[1]) / objects:.2f} in the cluster per object"
    )
    place = copies(physical)[0]["metadata"]["namespace"]
    _print_lags(workspace, physical, place, links, changes)
    _print_restart(workspace, syncer, links)
    before, start = cpu_seconds(syncer.pid), time.monotonic()
    time.sleep(10)
    used = (cpu_seconds(syncer.pid) - before) / (time.monotonic() - start)
    print(f"idle      {memory_mib(syncer.pid):.0f} MiB, {used:.3f} of a core")


def _print_lags(
    workspace: TestClient,
    physical: PhysicalCluster,
    place: str,
    links: tuple[HttpFaults, HttpFaults],
    changes: int,
) -> None:
    down, up = [], []
    written = [writes(link) for link in links]
    for number in range(changes):
        began = time.monotonic()
        name = f"web-{number}"
        workspace.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 3}})
        copy = f"/apis/apps/v1/namespaces/{place}/deployments/{name}"
        wait(lambda copy=copy: physical.client.get(copy).json["spec"]["replicas"] == 3)
        down.append(time.monotonic() - began)
        began = time.monotonic()
        physical.client.patch(f"{copy}/status", {"status": {"replicas": 3, "readyReplicas": 3}})
        wait(
            lambda name=name: (
                (workspace.get(f"{DEPLOYMENTS}/{name}").json.get("status") or {}).get("replicas")
                == 3
            )
        )
        up.append(time.monotonic() - began)
        time.sleep(max(0.0, 1 / RATE - down[-1] - up[-1]))
    for direction, lags in (("down", down), ("up", up)):
        print(
            f"lag {direction:5} p50 {statistics.median(lags) * 1000:.0f} ms, "
            f"p99 {statistics.quantiles(lags, n=100)[98] * 1000:.0f} ms"
        )
    more = [writes(link) - before for link, before in zip(links, written, strict=True)]
    print(
        f"writes    {more[0] / changes:.2f} in the workspace and "
        f"{more[1] / changes:.2f} in the cluster per change and its status"
    )


def _print_restart(
    workspace: TestClient, syncer: SyncerProcess, links: tuple[HttpFaults, HttpFaults]
) -> None:
    before = _heartbeat(workspace)
    syncer.stop()
    for link in links:
        link.requests.clear()
    began = time.monotonic()
    syncer.start()
    wait(lambda: _heartbeat(workspace) != before)
    wait(lambda: sum("watch=" in one.query for one in links[1].requests) >= 2)
    seconds = time.monotonic() - began
    time.sleep(3)
    print(f"restart   {writes(links[0]) + writes(links[1])} writes, reports after {seconds:.1f} s")


def _heartbeat(workspace: TestClient) -> Any:
    status = workspace.get(f"{CLUSTERS}/east").json.get("status") or {}
    return (status.get("syncer") or {}).get("identity")


def copies(physical: PhysicalCluster) -> list[Any]:
    found = physical.client.get("/apis/apps/v1/deployments").json["items"]
    return list(found)


def writes(link: HttpFaults) -> int:
    """Without leases and reports, which do not depend on objects."""
    return sum(one.is_write and "/deployments/" in one.path for one in link.requests)


def wait(check: Callable[[], bool], seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.005)


def memory_mib(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
