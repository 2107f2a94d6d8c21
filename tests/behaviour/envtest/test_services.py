"""What kube-apiserver adds to services, pods, claims and nodes, in a workspace that bound their kinds."""

from __future__ import annotations

import pathlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PORTS = [{"port": 80}]


def service(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": PORTS, **spec},
    }


def pod(name: str, **spec: object) -> Object:
    containers = [{"name": "web", "image": "web:1"}]
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def test_addresses_differ_and_are_released(workspace: TestClient) -> None:
    made = [workspace.post(SERVICES, service(f"differ-{n}", type="NodePort")) for n in range(5)]
    specs = [reply.json["spec"] for reply in made]
    assert len({spec["clusterIP"] for spec in specs}) == 5
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 5
    address = specs[0]["clusterIP"]
    again = workspace.post(SERVICES, service("differ-again", clusterIP=address))
    assert again.status == 422
    assert again.json["message"].endswith("provided IP is already allocated")
    assert workspace.delete(f"{SERVICES}/differ-0").json["kind"] == "Service"
    assert workspace.post(SERVICES, service("differ-again", clusterIP=address)).status == 201


def test_a_rejected_service_holds_nothing(workspace: TestClient) -> None:
    ports = [{"port": 80, "nodePort": 30123}]
    assert workspace.post(SERVICES, service("Bad_Name", type="NodePort", ports=ports)).status == 422
    dry = f"{SERVICES}?dryRun=All"
    assert workspace.post(dry, service("held", type="NodePort", ports=ports)).status == 201
    assert workspace.post(SERVICES, service("held", type="NodePort", ports=ports)).status == 201
    other = workspace.post(SERVICES, service("other", type="NodePort", ports=ports))
    assert other.json["message"].endswith("provided port is already allocated")
    workspace.patch(f"{SERVICES}/held", {"spec": {"type": "ClusterIP"}})
    assert workspace.post(SERVICES, service("other", type="NodePort", ports=ports)).status == 201


def test_one_of_many_gets_an_address(workspace: TestClient) -> None:
    """At once: all ask for the same one."""

    def ask(number: int) -> int:
        return workspace.post(SERVICES, service(f"same-{number}", clusterIP="10.0.77.77")).status

    with ThreadPoolExecutor(6) as pool:
        answers = sorted(pool.map(ask, range(6)))
    assert answers[0] == 201
    assert all(answer in (409, 422) for answer in answers[1:]), answers


def test_workspaces_have_ranges_of_their_own(
    workspace: TestClient, second_workspace: TestClient
) -> None:
    for client in (workspace, second_workspace):
        assert client.post(SERVICES, service("own", clusterIP="10.0.9.9")).status == 201


@pytest.mark.slow
def test_addresses_are_known_after_a_restart(tmp_path: pathlib.Path) -> None:
    flags = ("--kubernetes-cluster=dev", "--service-cluster-ip-range=10.1.0.0/24")
    process = ServerProcess(tmp_path, flags).start()
    try:
        client = process.client()
        assert client.get(f"{SERVICES}/kubernetes").json["spec"]["clusterIP"] == "10.1.0.1"
        assert client.post(SERVICES, service("kept", clusterIP="10.1.0.9")).status == 201
        process.stop()
        process.start()
        refused = process.client().post(SERVICES, service("new", clusterIP="10.1.0.9"))
        assert refused.json["message"].endswith("provided IP is already allocated")
    finally:
        process.stop()


def test_priorities(workspace: TestClient) -> None:
    def priority_class(name: str, **fields: object) -> Object:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        return {**kind, "metadata": {"name": name}, **fields}

    unknown = workspace.post(PODS, pod("unknown", priorityClassName="urgent"))
    assert unknown.status == 403
    assert unknown.json["message"] == (
        'pods "unknown" is forbidden: no PriorityClass with name urgent was found'
    )
    workspace.post(PRIORITIES, priority_class("urgent", value=500, preemptionPolicy="Never"))
    spec = workspace.post(PODS, pod("urgent", priorityClassName="urgent")).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (500, "Never")
    given = workspace.post(PODS, pod("given", priority=7))
    assert given.status == 403
    assert "the integer value of priority (7) must not be provided" in given.json["message"]
    workspace.post(PRIORITIES, priority_class("usual", value=5, globalDefault=True))
    spec = workspace.post(PODS, pod("usual")).json["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (5, "usual")
    second = workspace.post(PRIORITIES, priority_class("second", value=6, globalDefault=True))
    assert second.json["message"].endswith(
        "PriorityClass usual is already marked as default. Only one default can exist"
    )
    workspace.delete(f"{PRIORITIES}/usual")
    reserved = workspace.post(PRIORITIES, priority_class("system-mine", value=6))
    assert reserved.status == 422
    critical = workspace.post(PODS, pod("critical", priorityClassName="system-node-critical"))
    assert critical.json["spec"]["priority"] == 2000001000


def test_default_classes(workspace: TestClient) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def claimed(name: str, **spec: object) -> Object:
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        made: Object = workspace.post(CLAIMS, {**body, "spec": {**claim, **spec}}).json
        return made

    assert "storageClassName" not in claimed("before")["spec"]
    workspace.post(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "usual",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "example.com/disks",
        },
    )
    assert claimed("after")["spec"]["storageClassName"] == "usual"
    assert claimed("none", storageClassName="")["spec"]["storageClassName"] == ""
    assert "finalizers" not in claimed("deletable")["metadata"]  # nothing would remove them


def test_runtime_classes_and_nodes(workspace: TestClient) -> None:
    missing = workspace.post(PODS, pod("no-runtime", runtimeClassName="none"))
    assert missing.json["message"].endswith('pod rejected: RuntimeClass "none" not found')
    workspace.post(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "small"},
            "handler": "small",
            "overhead": {"podFixed": {"memory": "10Mi"}},
            "scheduling": {"nodeSelector": {"disk": "fast"}},
        },
    )
    spec = workspace.post(PODS, pod("runtime", runtimeClassName="small")).json["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"memory": "10Mi"}, {"disk": "fast"})
    other = pod("conflict", runtimeClassName="small", nodeSelector={"disk": "slow"})
    assert workspace.post(PODS, other).status == 403
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    taints = workspace.post("/api/v1/nodes", node).json["spec"]["taints"]
    assert taints == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_resize(workspace: TestClient) -> None:
    resources = {"requests": {"cpu": "1"}}
    containers = [{"name": "web", "image": "web:1", "resources": resources}]
    workspace.post(PODS, pod("resized", containers=containers))

    def resize(change: Object) -> Object:
        body = {"spec": {"containers": [{**containers[0], "resources": change}]}}
        made: Object = workspace.patch(f"{PODS}/resized/resize", body).json
        return made

    made = resize({"requests": {"cpu": "2"}})
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert made["spec"]["containers"][0]["image"] == "web:1"
    refused = resize({})
    assert refused["message"] == (
        'Pod "resized" is invalid: spec: Invalid value: "Burstable": '
        "Pod QOS Class may not change as a result of resizing"
    )
    assert "only cpu and memory" in resize({"requests": {"cpu": "1", "x.io/y": "1"}})["message"]
