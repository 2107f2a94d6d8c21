"""Clusters are lost, return and join: workloads move, within the brakes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.reporting import (
    FLAGS,
    PATHS,
    beat,
    binding,
    condition_of,
    deployment,
    leaves,
    lose,
    place,
    register,
    report,
    shares,
    workspace_with,
)
from pykcp.testing.multicluster.workspaces import CLUSTERS, is_ready
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

DEPLOYMENTS = PATHS["deployments.apps"]
SETS = PATHS["statefulsets.apps"]
EVENTS = "/api/v1/namespaces/default/events"
QUICK = (
    *FLAGS,
    "--eviction-toleration=1s",
    "--rebalance-cooldown=1s",
    "--evictions-per-second=20",
    "--cluster-evictions-per-second=20",
    "--unschedulable-toleration=1s",
)


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server(*QUICK) as process:
        yield process


def have(client: TestClient, wanted: dict[str, int]) -> bool:
    return shares(client) == wanted


def running(client: TestClient, *clusters: str, wanted: dict[str, int]) -> bool:
    """Syncers of these clusters work until the shares are as wanted."""
    are_right = shares(client) == wanted  # before the reports, so that all of them are reported
    report(client, *clusters)
    return are_right


def ready_replicas(client: TestClient) -> int:
    status: Object = client.get(f"{DEPLOYMENTS}/web").json.get("status") or {}
    return status.get("readyReplicas") or 0


def all_ready(client: TestClient, *clusters: str, wanted: int) -> bool:
    """Syncers of these clusters work until so many replicas are ready."""
    report(client, *clusters)
    return ready_replicas(client) == wanted


def evictions(client: TestClient) -> int:
    return sum(e["reason"] == "Evicted" for e in client.get(EVENTS).json["items"])


def test_a_lost_cluster_is_left_and_cleaned_up_when_it_returns(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    client.post(DEPLOYMENTS, deployment(replicas=6))
    eventually(partial(running, client, wanted={"a": 2, "b": 2, "c": 2}))
    lose(client, "c")
    eventually(partial(have, client, {"a": 3, "b": 3, "c": 2}))  # the old replicas stay meanwhile
    (leaving,) = binding(client)["spec"]["evicting"]  # type: ignore[index]
    assert (leaving["cluster"], leaving["reason"]) == ("c", "ClusterNotReady")
    eventually(partial(running, client, "a", "b", wanted={"a": 3, "b": 3}), 30)
    eventually(partial(all_ready, client, "a", "b", wanted=6))
    assert evictions(client) == 1
    left = leaves(client)["web--c"]["metadata"]
    assert left["deletionTimestamp"]  # its copy may still run
    assert left["finalizers"] == ["workloads.kcp.dev/syncer-c"]

    beat(client, "c")
    eventually(partial(is_ready, client, "c"))
    report(client, "c")  # its syncer removes the copy
    eventually(partial(running, client, wanted={"a": 2, "b": 2, "c": 2}), 30)  # rebalanced
    assert sum(e["reason"] == "Rebalanced" for e in client.get(EVENTS).json["items"]) == 2
    eventually(partial(all_ready, client, wanted=6))


def test_a_new_cluster_gets_replicas_and_none_is_missing_meanwhile(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    client.post(DEPLOYMENTS, deployment(replicas=10))
    eventually(partial(running, client, wanted={"a": 5, "b": 5}))
    register(client, "c")
    seen: set[int] = set()

    def is_balanced() -> bool:
        report(client)
        found = shares(client)
        seen.add(sum(found.values()))
        spec: Object = binding(client)["spec"]  # type: ignore[index]
        return not spec.get("evicting") and sorted(found.values()) in ([2, 4, 4], [3, 3, 4])

    eventually(is_balanced, 40)
    assert min(seen) >= 10
    assert sum(shares(client).values()) == 10


def test_nothing_is_evicted_while_most_clusters_seem_lost(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    place(client, failover={"graceSeconds": 3})  # longer than it takes to lose two of them
    client.post(DEPLOYMENTS, deployment(replicas=6))
    eventually(partial(running, client, wanted={"a": 2, "b": 2, "c": 2}))
    lose(client, "a", "b")
    paused: Object = eventually(lambda: condition_of(binding(client), "EvictionPaused"))
    assert paused["reason"] == "TooManyClustersNotReady"
    assert evictions(client) == 0
    assert have(client, {"a": 2, "b": 2, "c": 2})
    eventually(
        lambda: (
            condition_of(client.get(f"{DEPLOYMENTS}/web").json, "Available").get("status")
            == "Unknown"
        )
    )
    beat(client, "a")
    beat(client, "b")
    eventually(lambda: not condition_of(binding(client), "EvictionPaused"))
    assert evictions(client) == 0


def test_a_link_that_comes_and_goes_evicts_once_at_most(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    client.post(DEPLOYMENTS, deployment(replicas=4))
    eventually(partial(running, client, wanted={"a": 2, "b": 2}))
    for _ in range(5):
        lose(client, "b")
        report(client, "a")
        beat(client, "b")
        eventually(partial(is_ready, client, "b"))
    assert evictions(client) <= 1


def placed_set(client: TestClient, **spec: Any) -> str:
    """A StatefulSet, and the cluster in which it is."""
    if spec:
        place(client, **spec)
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {"replicas": 3, "volumeClaimTemplates": claims, "template": {"spec": {}}},
    }
    assert client.post(SETS, body).status == 201
    found: list[str] = eventually(lambda: list(leaves(client, "statefulsets.apps")))
    report(client, type_name="statefulsets.apps")
    assert len(found) == 1
    return found[0].removeprefix("db--")


def test_what_must_not_run_twice_stays_in_a_lost_cluster(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c", types=["deployments.apps", "statefulsets.apps"])
    where = placed_set(client)
    lose(client, where)
    held: Object = eventually(
        lambda: condition_of(binding(client, "statefulsets.apps.db"), "HeldInLostCluster")
    )
    assert held["message"].startswith(
        f"not started in another cluster, since {where} may still run it"
    )
    assert list(leaves(client, "statefulsets.apps")) == [f"db--{where}"]


CLAIMS = PATHS["persistentvolumeclaims"]


def with_claim(client: TestClient) -> str:
    """A Deployment with a volume claim, and the only cluster in which both are."""
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    assert client.post(CLAIMS, {**claim, "spec": {}}).status == 201
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    client.post(DEPLOYMENTS, deployment(replicas=2, volumes=volumes))
    eventually(lambda: leaves(client, "persistentvolumeclaims"))
    report(client, type_name="persistentvolumeclaims")
    (where,) = eventually(lambda: list(shares(client)))
    report(client)
    assert shares(client) == {where: 2}
    assert set(leaves(client, "persistentvolumeclaims")) == {f"data--{where}"}
    return str(where)


def test_a_workload_with_a_claim_is_not_started_without_its_data(cluster: TestClient) -> None:
    """F21, without any Placement."""
    types = ["deployments.apps", "persistentvolumeclaims"]
    client = workspace_with(cluster, "a", "b", "c", types=types)
    where = with_claim(client)
    lose(client, where)
    held: Object = eventually(lambda: condition_of(binding(client), "HeldInLostCluster"))
    assert held["reason"] == "ClusterNotReady"
    assert shares(client) == {where: 2}
    assert evictions(client) == 0
    beat(client, where)
    eventually(lambda: not condition_of(binding(client), "HeldInLostCluster"))
    (claim,) = leaves(client, "persistentvolumeclaims").values()
    assert not claim["metadata"].get("deletionTimestamp")


def test_a_claim_stays_where_a_workload_had_to_leave_it(cluster: TestClient) -> None:
    """F21, with purgeMode Directly."""
    types = ["deployments.apps", "persistentvolumeclaims"]
    client = workspace_with(cluster, "a", "b", types=types)
    place(
        client,
        resourceSelectors=[{"kind": "Deployment"}],
        strategy="Single",
        failover={"purgeMode": "Directly"},
    )
    where = with_claim(client)
    lose(client, where)
    eventually(lambda: len(leaves(client, "persistentvolumeclaims")) == 2)
    report(client, type_name="persistentvolumeclaims")
    eventually(lambda: len(leaves(client)) == 2)  # the old one goes when its cluster returns
    beat(client, where)
    eventually(partial(is_ready, client, where))

    def has_moved() -> bool:
        report(client)
        return list(leaves(client)) != [] and f"web--{where}" not in leaves(client)

    eventually(has_moved)
    claim = leaves(client, "persistentvolumeclaims")[f"data--{where}"]
    assert not claim["metadata"].get("deletionTimestamp")
    drained = {"spec": {"evictAfter": "2020-01-01T00:00:00Z"}}
    assert client.patch(f"{CLUSTERS}/{where}", drained).status == 200

    def is_drained() -> bool:
        report(client, type_name="persistentvolumeclaims")
        return f"data--{where}" not in leaves(client, "persistentvolumeclaims")

    eventually(is_drained)
    assert client.get(f"{CLAIMS}/data").status == 200


def test_what_no_other_cluster_can_run_stays_in_a_lost_one(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    assert client.patch(f"{CLUSTERS}/a", {"spec": {"unschedulable": True}}).status == 200
    eventually(lambda: client.get(f"{CLUSTERS}/a").json["status"].get("taints"))
    client.post(DEPLOYMENTS, deployment(replicas=3))
    eventually(partial(running, client, wanted={"b": 3}))
    lose(client, "b")
    held: Object = eventually(lambda: condition_of(binding(client), "HeldInLostCluster"))
    assert (held["reason"], held["message"]) == (
        "NoOtherCluster",
        "stays in b: no other cluster could run all of it",
    )
    assert shares(client) == {"b": 3}
    assert client.patch(f"{CLUSTERS}/a", {"spec": {"unschedulable": False}}).status == 200
    eventually(partial(running, client, "a", wanted={"a": 3}), 30)
    assert not condition_of(binding(client), "HeldInLostCluster")
    assert evictions(client) == 1


def test_it_is_moved_if_its_placement_says_so(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c", types=["deployments.apps", "statefulsets.apps"])
    where = placed_set(client, failover={"purgeMode": "Directly"})
    lose(client, where)
    eventually(lambda: len(leaves(client, "statefulsets.apps")) == 2)
    old = f"db--{where}"
    eventually(
        lambda: leaves(client, "statefulsets.apps")[old]["metadata"].get("deletionTimestamp")
    )


def test_full_clusters_get_nothing(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    full = {"allocatable": {"cpu": "4"}, "requested": {"cpu": "3900m"}}
    empty = {"allocatable": {"cpu": "4"}, "requested": {"cpu": "500m"}}
    beat(client, "a", **full)
    beat(client, "b", **empty)
    requests = {"resources": {"requests": {"cpu": "500m"}}}
    containers = [{"name": "c", "image": "nginx", **requests}]
    client.post(DEPLOYMENTS, deployment(replicas=3, containers=containers))
    eventually(partial(have, client, {"b": 3}))
    message = condition_of(binding(client), "Scheduled")["message"]
    assert "1 cluster(s) had insufficient cpu" in message


def test_replicas_that_find_no_node_go_to_another_cluster(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    client.post(DEPLOYMENTS, deployment(replicas=6))
    eventually(partial(have, client, {"a": 3, "b": 3}))
    report(client)
    note = {"workloads.kcp.dev/unschedulable": '{"replicas": 2, "message": "Insufficient cpu"}'}
    leaf = f"{DEPLOYMENTS}/web--a"
    assert client.patch(leaf, {"metadata": {"annotations": note}}).status == 200
    eventually(partial(have, client, {"a": 1, "b": 5}))
    told = [one for one in client.get(EVENTS).json["items"] if one["reason"] == "Rebalanced"]
    assert told[-1]["message"] == "2 replica(s) found no node in a"
    # The cluster is full for the workload: rebalancing does not bring them back.
    gone = {"workloads.kcp.dev/unschedulable": None}
    assert client.patch(leaf, {"metadata": {"annotations": gone}}).status == 200
    client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 8}})
    eventually(partial(have, client, {"a": 1, "b": 7}))
