"""Workloads on three real clusters, from the workspace to the copies and back.

After each scenario the checker compares the workspace with its clusters, and the requests that went to
each cluster are looked through for deletions without proof.
"""

from __future__ import annotations

import itertools
import pathlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.checker import Checker, delete_problems
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.faults import HttpFaults, TcpFaults
from pykcp.testing.multicluster.reporting import (
    PATHS,
    binding,
    condition_of,
    deployment,
    leaves,
    place,
    shares,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    is_ready,
)
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEPLOYMENTS = PATHS["deployments.apps"]
CONFIG_MAPS = PATHS["configmaps"]
EVENTS = "/api/v1/namespaces/default/events"
RESOURCES = ("deployments.apps", "configmaps")
QUICK = (
    "--cluster-probe-interval=500ms",
    "--cluster-recovery=2s",
    "--eviction-toleration=2s",
    "--rebalance-cooldown=1s",
    "--evictions-per-second=20",
    "--cluster-evictions-per-second=20",
)
LONG_AGO = "2020-01-01T00:00:00Z"
_numbers = itertools.count()


class LinkedCluster:
    """A cluster that the control plane reaches through two proxies: one breaks, one remembers."""

    def __init__(self, stack: ExitStack, physical: PhysicalCluster) -> None:
        self.client = physical.client
        self.seen = stack.enter_context(HttpFaults(physical.client.access))
        self.link = stack.enter_context(TcpFaults(self.seen.port))
        self.kubeconfig = physical.kubeconfig_text(self.link.port, self.seen.authority)

    def deletes(self) -> list[str]:
        """The copies that were deleted; their namespaces follow."""
        return [
            one.path.rpartition("/")[2]
            for one in self.seen.requests
            if one.method == "DELETE" and one.status < 400 and "/deployments/" in one.path
        ]


class Behind:
    """A workspace, and the clusters that are registered in it."""

    def __init__(self, workspace: TestClient, linked: dict[str, LinkedCluster]) -> None:
        self.workspace, self._linked = workspace, linked
        self.clusters: dict[str, LinkedCluster] = {}
        self.least_available: int | None = None

    def register(self, *names: str) -> None:
        for name in names:
            one = self.clusters[name] = self._linked[name]
            one.seen.requests.clear()
            spec: Object = {"kubeconfig": one.kubeconfig, "syncResources": list(RESOURCES)}
            made = self.workspace.post(CLUSTERS, cluster_object(name, **spec))
            assert made.status == 201, made
        for name in names:
            eventually(partial(self._accepts, name), 60)
        self.foreign = Checker(
            self.workspace,
            {name: one.client for name, one in self.clusters.items()},
            ("deployments.apps",),
        )
        self.foreign.note_foreign()

    def _accepts(self, name: str) -> bool:
        status = self.workspace.get(f"{CLUSTERS}/{name}").json.get("status") or {}
        states = {one["resource"]: one["state"] for one in status.get("syncedResources") or ()}
        return is_ready(self.workspace, name) and states.get("deployments") == "Accepted"

    def create(self, **fields: Any) -> None:
        made = self.workspace.post(DEPLOYMENTS, deployment(**fields))
        assert made.status == 201, made

    def available(self) -> int:
        status = self.workspace.get(f"{DEPLOYMENTS}/web").json.get("status") or {}
        found = int(status.get("availableReplicas") or 0)
        if self.least_available is not None:
            self.least_available = min(self.least_available, found)
        return found

    def has(self, *wanted: int) -> bool:
        """Whether the clusters have these shares, in any order, and all replicas are available."""
        found = sorted(count for count in shares(self.workspace).values() if count)
        is_moving = (binding(self.workspace) or {"spec": {}})["spec"].get("evicting")
        return (
            self.available() == sum(wanted)
            and found == sorted(count for count in wanted if count)
            and not is_moving
        )

    def check(self, *, left: tuple[str, ...] = ()) -> None:
        """Everything holds, soon; and nothing was deleted but in the clusters that were left."""
        checker = Checker(
            self.workspace, {name: one.client for name, one in self.clusters.items()}, RESOURCES
        )
        eventually(lambda: not checker.problems() and not self.foreign.problems(), 20)
        for name, one in self.clusters.items():
            requests = [r for r in one.seen.requests if "/deployments/" in r.path]
            proven = ("web",) if name in left else ()
            assert not delete_problems(requests, proven=proven)

    def copies(self, name: str, plural: str = "deployments") -> list[Object]:
        """Of this workspace."""
        path = "/apis/apps/v1/deployments" if plural == "deployments" else f"/api/v1/{plural}"
        uid = self.workspace.get(f"{CLUSTERS}/{name}").json["metadata"]["uid"]
        own = [
            one["metadata"]["name"]
            for one in self._linked[name].client.get("/api/v1/namespaces").json["items"]
            if uid in str(one["metadata"].get("annotations"))
        ]
        found = self._linked[name].client.get(path).json["items"]
        return [
            one
            for one in found
            if one["metadata"]["namespace"] in own and one["metadata"]["name"] != "kube-root-ca.crt"
        ]

    def count_events(self, reason: str) -> int:
        return sum(e["reason"] == reason for e in self.workspace.get(EVENTS).json["items"])


@pytest.fixture(scope="module")
def hub() -> Iterator[ServerProcess]:
    with server(*QUICK) as process:
        yield process


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LinkedCluster]]:
    folder: pathlib.Path = tmp_path_factory.mktemp("clusters")
    with ExitStack() as stack:
        found = {}
        for name in "abc":
            physical = stack.enter_context(own_cluster(name, folder))
            stack.enter_context(WorkloadController(physical.client))
            theirs = physical.client.post(DEPLOYMENTS, deployment("theirs", 1))
            assert theirs.status == 201, theirs
            found[name] = LinkedCluster(stack, physical)
        yield found


@pytest.fixture
def behind(hub: ServerProcess, linked: dict[str, LinkedCluster]) -> Iterator[Behind]:
    workspace = make_cluster(hub, f"whole{next(_numbers)}")
    bind_workload(workspace)
    yield Behind(workspace, linked)
    for one in linked.values():
        one.link.heal()
    for item in workspace.get(CLUSTERS).json["items"]:
        workspace.delete(f"{CLUSTERS}/{item['metadata']['name']}")
    eventually(lambda: not workspace.get(CLUSTERS).json["items"], 60)


def within(check: Callable[[], Any], seconds: float) -> float:
    """How long it took."""
    began = time.monotonic()
    eventually(check, seconds)
    return time.monotonic() - began


def test_a_workload_is_divided_scaled_edited_and_deleted(behind: Behind) -> None:
    behind.register("a", "b", "c")
    behind.create(replicas=10)
    eventually(lambda: behind.has(3, 3, 4))
    behind.check()
    path = f"{DEPLOYMENTS}/web"
    for count, wanted in ((31, (10, 10, 11)), (0, (0, 0, 0)), (5, (1, 2, 2))):
        behind.workspace.patch(path, {"spec": {"replicas": count}})
        eventually(partial(behind.has, *wanted))
        behind.check()
    for one in behind.clusters.values():
        one.seen.requests.clear()
    template = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
    behind.workspace.patch(path, {"spec": {"template": template}})

    def images() -> set[str]:
        found = itertools.chain(*(behind.copies(name) for name in behind.clusters))
        return {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in found}

    eventually(lambda: images() == {"nginx:2"})
    behind.check()
    for one in behind.clusters.values():
        applied = [r for r in one.seen.requests if r.path.endswith("/web") and r.is_write]
        assert [r.method for r in applied] == ["PATCH"]
    behind.workspace.delete(path, {"propagationPolicy": "Foreground"})
    took = within(lambda: behind.workspace.get(path).status == 404, 15)
    assert took < 5, took
    assert not leaves(behind.workspace)
    assert not any(behind.copies(name) for name in behind.clusters)
    behind.check(left=("a", "b", "c"))


def test_what_a_workload_needs_moves_with_it(behind: Behind) -> None:
    behind.register("a", "b")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    assert behind.workspace.post(CONFIG_MAPS, {**settings, "data": {"a": "1"}}).status == 201
    place(behind.workspace, strategy="Single", resourceSelectors=[{"kind": "Deployment"}])
    volumes = [{"name": "s", "configMap": {"name": "settings"}}]
    behind.create(replicas=10, volumes=volumes)
    eventually(lambda: behind.has(10))
    (here,) = shares(behind.workspace)
    there = "b" if here == "a" else "a"
    first, then = behind.copies(here, "configmaps"), behind.copies(here)
    assert first[0]["metadata"]["creationTimestamp"] <= then[0]["metadata"]["creationTimestamp"]
    behind.check()
    behind.least_available = 10
    drain = {"spec": {"unschedulable": True, "evictAfter": LONG_AGO}}
    assert behind.workspace.patch(f"{CLUSTERS}/{here}", drain).status == 200
    eventually(lambda: behind.has(10) and shares(behind.workspace) == {there: 10}, 60)
    assert behind.least_available >= 9
    eventually(lambda: not behind.copies(here) and not behind.copies(here, "configmaps"))
    assert [one["data"] for one in behind.copies(there, "configmaps")] == [{"a": "1"}]
    behind.check(left=(here,))
    behind.workspace.delete(f"{DEPLOYMENTS}/web")
    eventually(lambda: not behind.copies(there) and not behind.copies(there, "configmaps"))
    assert behind.workspace.get(f"{CONFIG_MAPS}/settings").status == 200  # the user's own
    behind.check(left=(here, there))


def test_a_cluster_that_joins_gets_its_share(behind: Behind) -> None:
    behind.register("a", "b")
    behind.create(replicas=10)
    eventually(lambda: behind.has(5, 5))
    behind.least_available = 10
    behind.register("c")
    eventually(lambda: behind.has(3, 3, 4) or behind.has(2, 4, 4), 90)
    assert behind.least_available >= 10
    behind.check()


def test_a_cluster_that_is_cut_off_is_left_and_cleaned_up_when_it_returns(behind: Behind) -> None:
    behind.register("a", "b", "c")
    behind.create(replicas=9)
    eventually(lambda: behind.has(3, 3, 3))
    behind.clusters["c"].link.cut()
    took = within(lambda: not is_ready(behind.workspace, "c"), 45)
    assert took < 45, took
    eventually(lambda: sorted(shares(behind.workspace).values()) == [4, 5], 60)
    eventually(lambda: behind.available() == 9)
    assert behind.count_events("Evicted") == 1
    # The cluster runs on as it was.
    assert [one["spec"]["replicas"] for one in behind.copies("c")] == [3]
    behind.clusters["c"].link.heal()
    eventually(lambda: is_ready(behind.workspace, "c"), 45)
    assert within(lambda: behind.clusters["c"].deletes() == ["web"], 30) < 10
    eventually(lambda: behind.has(3, 3, 3) or behind.has(2, 3, 4), 60)
    behind.check(left=("c",))


def test_nothing_moves_while_most_clusters_are_cut_off(behind: Behind) -> None:
    behind.register("a", "b", "c")
    place(behind.workspace, failover={"graceSeconds": 5})  # longer than it takes to notice two
    behind.create(replicas=9)
    eventually(lambda: behind.has(3, 3, 3))
    for name in "bc":
        behind.clusters[name].link.cut()
    paused: Object = eventually(lambda: condition_of(binding(behind.workspace), "EvictionPaused"))
    assert paused["reason"] == "TooManyClustersNotReady"
    for name in "bc":
        behind.clusters[name].link.heal()
    for name in "bc":
        eventually(partial(is_ready, behind.workspace, name), 45)
    eventually(lambda: not condition_of(binding(behind.workspace), "EvictionPaused"))
    assert behind.count_events("Evicted") == 0
    eventually(lambda: behind.has(3, 3, 3))
    behind.check()


def test_a_link_that_comes_and_goes_moves_a_workload_once_at_most(behind: Behind) -> None:
    behind.register("a", "b")
    behind.create(replicas=6)
    eventually(lambda: behind.has(3, 3))
    link, states = behind.clusters["b"].link, [True]
    for _ in range(10):
        link.cut()
        _watch(behind, states, 0.7)
        link.heal()
        _watch(behind, states, 0.7)
    assert len(states) <= 5, states  # four changes
    assert behind.count_events("Evicted") <= 1
    eventually(partial(is_ready, behind.workspace, "b"), 45)
    eventually(lambda: behind.has(3, 3) or behind.has(2, 4), 60)
    behind.check(left=("b",))


def _watch(behind: Behind, states: list[bool], seconds: float) -> None:
    """Note each change of the condition for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = is_ready(behind.workspace, "b")
        if found != states[-1]:
            states.append(found)


def test_a_cluster_that_is_deleted_while_it_is_away_leaves_nothing_in_the_workspace(
    behind: Behind,
) -> None:
    behind.register("a", "b")
    behind.create(replicas=4)
    eventually(lambda: behind.has(2, 2))
    behind.clusters["b"].link.cut()
    eventually(lambda: not is_ready(behind.workspace, "b"), 45)
    behind.workspace.delete(f"{CLUSTERS}/b")
    eventually(lambda: shares(behind.workspace) == {"a": 4}, 60)
    force = {"metadata": {"annotations": {"workloads.kcp.dev/force-delete": "true"}}}
    assert behind.workspace.patch(f"{CLUSTERS}/b", force).status == 200
    eventually(lambda: behind.workspace.get(f"{CLUSTERS}/b").status == 404)
    eventually(lambda: set(leaves(behind.workspace)) == {"web--a"})
    behind.clusters.pop("b").link.heal()
    eventually(lambda: behind.has(4))
    behind.check()
