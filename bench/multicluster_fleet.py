"""Many clusters on one machine: each is a logical cluster of one server, with its own kubeconfig.

Rows S1 and S2 of `bench/multicluster.py --logical 50`. Each Deployment has one replica, so that each
is in one cluster. A stand-in for the controllers of a cluster sets the status of each Deployment when
it changes.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import write_kubeconfig
from pykcp.testing.multicluster.reporting import PATHS, deployment
from pykcp.testing.multicluster.syncers import serve_workloads
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    is_ready,
)
from pykcp.testing.server import server

DEPLOYMENTS = PATHS["deployments.apps"]
EDIT = "edit"
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Times:
    """When something was first seen, by name."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def note(self, name: str) -> None:
        self.seen.setdefault(name, time.monotonic())


class ManyClusters:
    """A workspace with clusters of the mode Push, all of them logical clusters of one server."""

    def __init__(self, stack: ExitStack, count: int, *flags: str) -> None:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.process = stack.enter_context(server(*flags))
        downstream = stack.enter_context(server())
        self.client = make_cluster(self.process, "bench")
        self.down, self.up = Times(), Times()
        bind_workload(self.client)
        self.names = [f"c{number}" for number in range(count)]
        for name in self.names:
            inner = make_cluster(downstream, name)
            inner.post("/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
            serve_workloads(inner, "deployments.apps")
            access = replace(inner.access, path=inner.prefix)
            text = write_kubeconfig(folder / name, access).read_text()
            body = cluster_object(name, kubeconfig=text, syncResources=["deployments.apps"])
            made = self.client.post(CLUSTERS, body)
            assert made.status == 201, made
            _follow(partial(self._run_workloads, inner))
        for name in self.names:
            eventually(partial(is_ready, self.client, name), 120)
            eventually(partial(self._accepts, name), 120)
        _follow(self._watch_roots)

    def _accepts(self, name: str) -> bool:
        status = self.client.get(f"{CLUSTERS}/{name}").json.get("status") or {}
        return any(one["state"] == "Accepted" for one in status.get("syncedResources") or ())

    def _run_workloads(self, cluster: TestClient) -> None:
        """What the controllers of a cluster do."""
        for event in cluster.watch("/apis/apps/v1/deployments"):
            found = event["object"]
            metadata, status = found["metadata"], found.get("status") or {}
            if event["type"] not in ("ADDED", "MODIFIED"):
                continue
            self.down.note(_edit_of(found))
            if status.get("observedGeneration") == metadata["generation"]:
                continue
            count = found["spec"].get("replicas", 1)
            wanted = {
                "observedGeneration": metadata["generation"],
                "replicas": count,
                "updatedReplicas": count,
                "readyReplicas": count,
                "availableReplicas": count,
            }
            inside = f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments"
            cluster.patch(f"{inside}/{metadata['name']}/status", {"status": wanted})

    def _watch_roots(self) -> None:
        for event in self.client.watch(DEPLOYMENTS):
            found = event["object"]
            if "ownerReferences" in found["metadata"]:
                continue  # a leaf
            status = found.get("status") or {}
            if status.get("observedGeneration") == found["metadata"]["generation"]:
                self.up.note(_edit_of(found))


def _edit_of(found: Any) -> str:
    notes = found["spec"]["template"]["metadata"].get("annotations") or {}
    return f"{found['metadata']['name']}/{notes.get(EDIT, '')}"


def _follow(body: Callable[[], None]) -> None:
    threading.Thread(target=_until_closed, args=(body,), daemon=True).start()


def _until_closed(body: Callable[[], None]) -> None:
    while True:
        try:
            body()
        except TimeoutError:
            continue  # nothing happened for a while
        except (OSError, AssertionError):
            return  # the server stopped


def in_parallel(fleet: ManyClusters, count: int, body: Callable[[TestClient, int], None]) -> None:
    """From four connections, as four users do it."""

    def run(first: int) -> None:
        client = fleet.process.client(cluster="bench")
        for number in range(first, count, 4):
            body(client, number)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def wait_for(times: Times, names: list[str], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not all(name in times.seen for name in names):
        assert time.monotonic() < deadline, [n for n in names if n not in times.seen][:5]
        time.sleep(0.1)


def cold(fleet: ManyClusters, objects: int) -> dict[str, float]:
    """Seconds until all copies exist and until all statuses are back; CPU seconds."""
    began, before = time.monotonic(), cpu_seconds(fleet.process.pid)

    def create(client: TestClient, number: int) -> None:
        made = client.post(DEPLOYMENTS, deployment(f"d{number}", 1))
        assert made.status == 201, made

    in_parallel(fleet, objects, create)
    names = [f"d{number}/" for number in range(objects)]
    wait_for(fleet.down, names)
    wait_for(fleet.up, names)
    return {
        "copies": max(fleet.down.seen[name] for name in names) - began,
        "status": max(fleet.up.seen[name] for name in names) - began,
        "cpu": cpu_seconds(fleet.process.pid) - before,
    }


def steady(
    fleet: ManyClusters, objects: int, seconds: float, rate: float
) -> tuple[list[float], list[float], float]:
    """Lags down and back of each change, and the share of a core that the server used."""
    sent: dict[str, float] = {}
    began, before, number = time.monotonic(), cpu_seconds(fleet.process.pid), 0
    while time.monotonic() - began < seconds:
        name, mark = f"d{number % objects}", str(number)
        edit = {"spec": {"template": {"metadata": {"annotations": {EDIT: mark}}}}}
        sent[f"{name}/{mark}"] = time.monotonic()
        answer = fleet.client.patch(f"{DEPLOYMENTS}/{name}", edit)
        assert answer.status == 200, answer
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
    wait_for(fleet.down, list(sent))
    wait_for(fleet.up, list(sent))
    used = (cpu_seconds(fleet.process.pid) - before) / (time.monotonic() - began)
    down = [fleet.down.seen[name] - moment for name, moment in sent.items()]
    return down, [fleet.up.seen[name] - moment for name, moment in sent.items()], used
