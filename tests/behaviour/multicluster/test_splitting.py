"""Workloads are split over the clusters of their workspace, and their status comes back."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import write_kubeconfig
from pykcp.testing.multicluster.reporting import (
    FLAGS,
    KINDS,
    PATHS,
    PLACEMENTS,
    binding,
    condition_of,
    deployment,
    install_types,
    leaves,
    place,
    register,
    report,
    shares,
    workspace_with,
)
from pykcp.testing.multicluster.workspaces import CLUSTERS
from pykcp.testing.server import ServerProcess, environment, server
from pykcp.types import Object


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    with server(*FLAGS) as process:
        yield process


DEPLOYMENTS = PATHS["deployments.apps"]
EVENTS = "/api/v1/namespaces/default/events"


def status(client: TestClient, name: str = "web") -> Object:
    found: Object = client.get(f"{DEPLOYMENTS}/{name}").json.get("status") or {}
    return found


def settled(client: TestClient, wanted: list[int], seconds: float = 15.0) -> dict[str, int]:
    """Shares, once they are as wanted in any order."""
    found: dict[str, int] = eventually(
        lambda: shares(client) if sorted(shares(client).values()) == sorted(wanted) else None,
        seconds,
    )
    return found


def test_ten_replicas_on_three_clusters(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    assert client.post(DEPLOYMENTS, deployment()).status == 201
    settled(client, [3, 3, 4])
    for name, leaf in leaves(client).items():
        metadata = leaf["metadata"]
        target = metadata["labels"]["workloads.kcp.dev/cluster"]
        assert name == f"web--{target}"
        assert metadata["annotations"]["workloads.kcp.dev/downstream-name"] == "web"
        assert metadata["finalizers"] == [f"workloads.kcp.dev/syncer-{target}"]

    report(client)
    eventually(lambda: status(client).get("readyReplicas") == 10)
    whole = status(client)
    assert whole["observedGeneration"] == 1
    assert whole["availableReplicas"] == 10
    assert condition_of({"status": whole}, "Available")["status"] == "True"
    reports = {one["name"]: one["health"] for one in binding(client)["status"]["clusters"]}  # type: ignore[index]
    assert reports == {"a": "Healthy", "b": "Healthy", "c": "Healthy"}

    uid = leaves(client)["web--a"]["metadata"]["uid"]
    client.delete(f"{DEPLOYMENTS}/web--a")
    report(client)
    eventually(
        lambda: leaves(client).get("web--a", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid,
        5,
    )


def test_scaling_and_edits_reach_each_leaf_once(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    client.post(DEPLOYMENTS, deployment())
    settled(client, [3, 3, 4])
    for replicas in (31, 0, 5):
        client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": replicas}})
        eventually(lambda n=replicas: sum(shares(client).values()) == n and shares(client))
    before = {name: leaf["metadata"]["generation"] for name, leaf in leaves(client).items()}
    template = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
    client.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": template}})

    def images() -> set[str]:
        return {
            leaf["spec"]["template"]["spec"]["containers"][0]["image"]
            for leaf in leaves(client).values()
        }

    eventually(lambda: images() == {"nginx:2"})
    report(client)
    eventually(lambda: status(client).get("observedGeneration") == 5)
    after = {name: leaf["metadata"]["generation"] for name, leaf in leaves(client).items()}
    assert after == {name: generation + 1 for name, generation in before.items()}


def test_a_deleted_workload_leaves_nothing(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    client.post(DEPLOYMENTS, deployment(replicas=4))
    settled(client, [2, 2])
    client.delete(f"{DEPLOYMENTS}/web")

    def is_gone() -> bool:
        report(client)
        return not leaves(client) and binding(client) is None

    eventually(is_gone, 10)


def test_a_leaf_without_cluster_is_released(cluster: TestClient) -> None:
    """As one that is made just when its Cluster is deleted: no syncer would ever do it."""
    client = workspace_with(cluster, "a")
    client.post(DEPLOYMENTS, deployment(replicas=2))
    settled(client, [2])
    leaf = leaves(client)["web--a"]
    metadata = {name: leaf["metadata"][name] for name in ("ownerReferences", "annotations")}
    metadata["name"] = "web--gone"
    metadata["labels"] = {**leaf["metadata"]["labels"], "workloads.kcp.dev/cluster": "gone"}
    metadata["finalizers"] = ["workloads.kcp.dev/syncer-gone"]
    made = client.post(DEPLOYMENTS, {**leaf, "metadata": metadata})
    assert made.status == 201, made
    eventually(lambda: set(leaves(client)) == {"web--a"})


def test_weights_bounds_and_what_cannot_be_placed(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    weights = [
        {"selector": {"clusterNames": [name]}, "weight": weight}
        for name, weight in (("a", 1), ("b", 2), ("c", 3))
    ]
    place(client, division={"preference": "Weighted", "weights": weights})
    client.post(DEPLOYMENTS, deployment(replicas=12))
    assert settled(client, [2, 4, 6]) == {"a": 2, "b": 4, "c": 6}

    client.patch(
        f"{PLACEMENTS}/rules", {"spec": {"clusterAffinity": {"required": {"clusterNames": ["x"]}}}}
    )
    refused = eventually(
        lambda: (
            condition_of(binding(client), "Scheduled")
            if condition_of(binding(client), "Scheduled").get("status") == "False"
            else None
        )
    )
    assert refused["reason"] == "Unschedulable"
    assert refused["message"].startswith(
        "0/3 clusters are available: 3 cluster(s) did not match the placement's cluster affinity"
    )


def test_spread_affinity_and_anti_affinity(cluster: TestClient) -> None:
    client = workspace_with(cluster)
    for name, region in (("e1", "eu"), ("e2", "eu"), ("u1", "us")):
        register(client, name, {"region": region})
    place(
        client,
        "spread",
        resourceSelectors=[{"name": "wide"}],
        spread=[{"topologyKey": "region", "min": 2}],
    )
    eu = {"required": {"labelSelector": {"matchLabels": {"region": "eu"}}}}
    place(client, "eu", resourceSelectors=[{"name": "near"}], clusterAffinity=eu)
    apart = {"groupByLabel": "group"}
    selector = {"labelSelector": {"matchLabels": {"group": "g"}}}
    place(
        client, "apart", resourceSelectors=[selector], strategy="Single", workloadAntiAffinity=apart
    )
    for name in ("wide", "near"):
        client.post(DEPLOYMENTS, deployment(name, 2))
    for name in ("first", "second"):
        body = deployment(name, 1)
        body["metadata"]["labels"]["group"] = "g"
        client.post(DEPLOYMENTS, body)
        eventually(lambda n=name: shares(client, n))
    wide = eventually(lambda: len(shares(client, "wide")) == 2 and shares(client, "wide"))
    assert "u1" in wide
    near = eventually(lambda: shares(client, "near"))
    assert set(near) <= {"e1", "e2"}
    assert not set(shares(client, "first")) & set(shares(client, "second"))


def test_cordon_uncordon_and_drain(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    client.patch(f"{CLUSTERS}/a", {"spec": {"unschedulable": True}})
    client.post(DEPLOYMENTS, deployment(replicas=4))
    assert settled(client, [4]) == {"b": 4}
    client.patch(f"{CLUSTERS}/a", {"spec": {"unschedulable": False, "evictAfter": None}})
    report(client)
    client.patch(f"{CLUSTERS}/b", {"spec": {"evictAfter": "2020-01-01T00:00:00Z"}})
    overlap = settled(client, [4, 4])  # the new replicas first
    assert set(overlap) == {"a", "b"}
    report(client)
    assert settled(client, [4]) == {"a": 4}
    reasons = {e["reason"] for e in client.get(EVENTS).json["items"]}
    assert {"Scheduled", "Evicted"} <= reasons


def test_followers_come_first_and_go_with_their_leader(cluster: TestClient) -> None:
    names = ["configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims", "services"]
    client = workspace_with(cluster, "a", "b", types=["deployments.apps", *names])
    bodies: dict[str, Object] = {
        "configmaps": {"kind": "ConfigMap", "data": {"k": "v"}},
        "secrets": {"kind": "Secret", "stringData": {"k": "v"}},
        "serviceaccounts": {"kind": "ServiceAccount"},
        "persistentvolumeclaims": {"kind": "PersistentVolumeClaim", "spec": {}},
        "services": {
            "kind": "Service",
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
    }
    for name, body in bodies.items():
        made = client.post(PATHS[name], {"apiVersion": "v1", "metadata": {"name": "x"}, **body})
        assert made.status == 201, made
    place(client, "one", resourceSelectors=[{"kind": "Deployment"}], strategy="Single")
    volumes = [
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "x"}},
    ]
    client.post(DEPLOYMENTS, deployment(replicas=1, serviceAccountName="x", volumes=volumes))
    eventually(lambda: all(leaves(client, name) for name in names))
    assert not leaves(client)  # it waits for them
    for name in names:
        report(client, type_name=name)
    eventually(lambda: leaves(client))
    (where,) = shares(client)
    for name in names:
        assert set(leaves(client, name)) == {f"x--{where}"}

    client.delete(f"{DEPLOYMENTS}/web")
    claims = "persistentvolumeclaims"
    others = ["deployments.apps", *(name for name in names if name != claims)]

    def is_gone(*types: str) -> bool:
        for name in types:
            report(client, type_name=name)
        return not any(leaves(client, name) for name in types)

    eventually(lambda: is_gone(*others), 20)
    assert client.get(f"{PATHS['configmaps']}/x").status == 200  # the user's own
    (claim,) = leaves(client, claims).values()
    assert not claim["metadata"].get("deletionTimestamp")  # its data is nowhere else
    client.delete(f"{PATHS[claims]}/x")
    eventually(lambda: is_gone(claims), 20)


def test_kinds_go_where_they_usually_go(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", types=list(KINDS))
    expected = {
        "statefulsets.apps": 1,
        "daemonsets.apps": 2,
        "jobs.batch": 1,
        "widgets.example.io": 2,
    }
    for name in expected:
        group = name.partition(".")[2]
        body = {
            "apiVersion": f"{group}/v1",
            "kind": KINDS[name],
            "metadata": {"name": "x"},
            "spec": {
                "replicas": 3,
                "template": {"metadata": {"labels": {"app": name.partition(".")[0]}}},
            },
        }
        assert client.post(PATHS[name], body).status == 201
    for name, count in expected.items():
        eventually(lambda n=name, c=count: len(leaves(client, n)) == c)


def test_overrides_apply_where_they_are_meant_to(cluster: TestClient) -> None:
    client = workspace_with(cluster)
    register(client, "e", {"region": "eu"})
    register(client, "u", {"region": "us"})
    eu = {"labelSelector": {"matchLabels": {"region": "eu"}}}
    good = [{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "high"}]
    bad = [{"op": "remove", "path": "/spec/absent/field"}]
    place(
        client,
        overrides=[
            {"clusterSelector": eu, "jsonPatch": good, "imagePrefix": "mirror.eu"},
        ],
    )
    client.post(DEPLOYMENTS, deployment(replicas=2))
    eventually(lambda: len(leaves(client)) == 2)
    found = {name: leaf["spec"]["template"]["spec"] for name, leaf in leaves(client).items()}
    assert found["web--e"]["priorityClassName"] == "high"
    assert found["web--e"]["containers"][0]["image"] == "mirror.eu/nginx:1"
    assert found["web--u"]["containers"][0]["image"] == "nginx:1"
    client.patch(
        f"{PLACEMENTS}/rules", {"spec": {"overrides": [{"clusterSelector": eu, "jsonPatch": bad}]}}
    )
    problem = eventually(
        lambda: (
            condition_of(binding(client), "OverridesApplied")
            if condition_of(binding(client), "OverridesApplied").get("status") == "False"
            else None
        )
    )
    assert problem["message"].startswith("e: overrides[0]:")
    client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}})
    eventually(lambda: shares(client).get("u") == 2)


def test_workspaces_do_not_meet(shard: ServerProcess) -> None:
    first = workspace_with(make_cluster(shard, "meet1"), "a")
    second = workspace_with(make_cluster(shard, "meet2"), "a", "b")
    first.post(DEPLOYMENTS, deployment(replicas=3))
    second.post(DEPLOYMENTS, deployment(replicas=4))
    assert settled(first, [3]) == {"a": 3}
    assert settled(second, [2, 2]) == {"a": 2, "b": 2}
    report(first)
    eventually(lambda: status(first).get("readyReplicas") == 3)
    assert not status(second).get("readyReplicas")


def test_what_users_label_themselves_is_left_alone(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b")
    body = deployment("mine", 5)
    body["metadata"]["labels"]["workloads.kcp.dev/cluster"] = "a"
    client.post(DEPLOYMENTS, body)
    client.post(DEPLOYMENTS, deployment(replicas=2))
    settled(client, [1, 1])
    assert set(leaves(client)) == {"mine", "web--a", "web--b"}


def test_types_that_no_cluster_accepts_are_not_placed(cluster: TestClient) -> None:
    client = workspace_with(cluster)
    install_types(client, ["widgets.example.io"])
    register(client, "a", types=["deployments.apps"])
    client.post(
        PATHS["widgets.example.io"],
        {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}},
    )
    client.post(DEPLOYMENTS, deployment(replicas=2))
    settled(client, [2])
    assert not leaves(client, "widgets.example.io")


def test_what_is_too_large_for_a_cluster_stays_as_it_was(cluster: TestClient) -> None:
    client = workspace_with(cluster, "a", "b", "c")
    large = deployment()
    container = large["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "LARGE", "value": "x" * (3 << 19)}]
    assert client.post(DEPLOYMENTS, large).status == 201
    assert client.post(DEPLOYMENTS, deployment("small")).status == 201
    eventually(lambda: len(leaves(client)) == 3)
    assert {name.partition("--")[0] for name in leaves(client)} == {"small"}

    container["env"] = []
    assert client.patch(f"{DEPLOYMENTS}/web", {"spec": large["spec"]}).status == 200
    settled(client, [3, 3, 4])
    container["env"] = [{"name": "LARGE", "value": "x" * (3 << 19)}]
    assert client.patch(f"{DEPLOYMENTS}/web", {"spec": large["spec"]}).status == 200
    client.patch(f"{DEPLOYMENTS}/small", {"spec": {"replicas": 4}})
    eventually(lambda: sorted(shares(client, "small").values()) == [1, 1, 2])
    assert not leaves(client)["web--a"]["spec"]["template"]["spec"]["containers"][0].get("env")

    assert client.delete(f"{DEPLOYMENTS}/web").status == 200
    eventually(lambda: report(client) or {name[:5] for name in leaves(client)} == {"small"})


@pytest.mark.parametrize("workspaces", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_program_places_workloads_like_the_server(
    workspaces: int, tmp_path: pathlib.Path
) -> None:
    """Those of one workspace, or of all if its kubeconfig names none."""
    with server(*FLAGS, "--split-workloads=false") as process:
        client = workspace_with(make_cluster(process, "remote"), "a", "b")
        client.post(DEPLOYMENTS, deployment(replicas=4))
        others = [
            workspace_with(make_cluster(process, f"other{number}"), "a", "c")
            for number in range(1, workspaces)
        ]
        for other in others:
            other.post(DEPLOYMENTS, deployment(replicas=6))
        access = replace(client.access, path="" if others else client.prefix)
        kubeconfig = write_kubeconfig(tmp_path / "workspace.kubeconfig", access)
        words = [
            sys.executable,
            "-m",
            "pykcp.cli.deployment_splitter",
            f"--kubeconfig={kubeconfig}",
        ]
        assert binding(client) is None
        with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL) as program:
            try:
                assert settled(client, [2, 2]) == {"a": 2, "b": 2}
                report(client)
                eventually(lambda: status(client).get("readyReplicas") == 4)
                client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 7}})
                settled(client, [3, 4])
                for other in others:
                    assert settled(other, [3, 3]) == {"a": 3, "c": 3}
            finally:
                program.terminate()
        assert program.returncode == 0
