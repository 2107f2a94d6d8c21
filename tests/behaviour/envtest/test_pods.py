"""Kubernetes' own kinds, bound by a workspace from the export of `root`: pods and their subresources."""

from __future__ import annotations

import pytest

from pykcp.testing.client import TestClient
from pykcp.types import Object

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def pod(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec},
    }


def binding_of(name: str, node: str) -> Object:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def eviction(name: str) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def test_tables(workspace: TestClient) -> None:
    workspace.post(PODS, pod("shown"))
    table = workspace.get(f"{PODS}/shown", accept=TABLE).json
    titles = [column["name"] for column in table["columnDefinitions"]]
    assert titles[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["shown", "0/1", "Pending", "0"]


def test_discovery(workspace: TestClient) -> None:
    names = {r["name"]: r for r in workspace.get("/api/v1").json["resources"]}
    assert {"pods/binding", "pods/ephemeralcontainers", "pods/log", "pods/exec"} <= set(names)
    assert (names["pods/eviction"]["group"], names["pods/eviction"]["version"]) == ("policy", "v1")
    assert sorted(names["pods"]["verbs"]) == names["configmaps"]["verbs"]


def test_a_pod_is_replaced_by_what_its_author_wrote(workspace: TestClient) -> None:
    """Tolerations and priority, which the server added, need not be in it."""
    written = pod("written", tolerations=[{"key": "own", "operator": "Exists"}])
    assert workspace.post(PODS, written).status == 201
    written["metadata"]["labels"]["changed"] = "true"
    replaced = workspace.put(f"{PODS}/written", written)
    assert replaced.status == 200, replaced
    assert replaced.json["metadata"]["labels"]["changed"] == "true"
    spec = replaced.json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert len(spec["tolerations"]) == 3
    less = workspace.put(f"{PODS}/written", pod("written"))
    assert (less.status, less.json["reason"]) == (422, "Invalid")


def test_binding(workspace: TestClient) -> None:
    workspace.post(PODS, pod("bound"))
    assert workspace.post(f"{PODS}/bound/binding", binding_of("bound", "n1")).status == 201
    found = workspace.get(f"{PODS}/bound").json
    assert found["spec"]["nodeName"] == "n1"
    assert found["status"]["conditions"][0]["type"] == "PodScheduled"
    again = workspace.post(f"{PODS}/bound/binding", binding_of("bound", "n2"))
    assert (again.status, again.json["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"',
    )
    other = workspace.post(f"{PODS}/bound/binding", binding_of("other", "n2"))
    assert other.json["message"] == "name in URL does not match name in Binding object"
    selected = workspace.get(PODS, fieldSelector="spec.nodeName=n1").json["items"]
    assert [one["metadata"]["name"] for one in selected] == ["bound"]


def test_eviction(workspace: TestClient) -> None:
    workspace.post(PODS, pod("evicted"))
    assert workspace.post(f"{PODS}/evicted/eviction", eviction("evicted")).status == 201
    assert workspace.get(f"{PODS}/evicted").status == 404
    assert workspace.post(f"{PODS}/evicted/eviction", eviction("evicted")).status == 404


def test_a_budget_protects_pods(workspace: TestClient) -> None:
    workspace.post(PODS, pod("kept"))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert workspace.patch(f"{PODS}/kept/status", running).status == 200
    selector = {"matchLabels": {"app": "kept"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": selector},
    }
    assert workspace.post(BUDGETS, budget).status == 201
    status: Object = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
    status |= {"disruptionsAllowed": 0, "expectedPods": 1}
    workspace.patch(f"{BUDGETS}/kept/status", {"status": status})
    denied = workspace.post(f"{PODS}/kept/eviction", eviction("kept"))
    assert denied.status == 429
    assert denied.json["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    workspace.patch(f"{BUDGETS}/kept/status", {"status": {"disruptionsAllowed": 1}})
    assert workspace.post(f"{PODS}/kept/eviction", eviction("kept")).status == 201
    found = workspace.get(f"{BUDGETS}/kept").json["status"]
    assert found["disruptionsAllowed"] == 0
    assert "kept" in found["disruptedPods"]


def test_ephemeral_containers(workspace: TestClient) -> None:
    workspace.post(PODS, pod("debugged"))
    debugger = {"name": "debugger", "image": "busybox"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeName": "ignored"}}
    changed = workspace.patch(f"{PODS}/debugged/ephemeralcontainers", patch)
    assert changed.status == 200, changed
    assert changed.json["spec"]["ephemeralContainers"][0]["name"] == "debugger"
    assert "nodeName" not in changed.json["spec"]


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward"])
def test_no_pod_runs_here(workspace: TestClient, subresource: str) -> None:
    workspace.post(PODS, pod("idle"))
    path = f"{PODS}/idle/{subresource}"
    answer = workspace.get(path)
    assert (answer.status, answer.json["message"]) == (
        400,
        "pod idle does not have a host assigned",
    )
    wrong = workspace.get(path, container="no")
    assert wrong.json["message"] == "container no is not valid for pod idle"
    assert workspace.get(f"{PODS}/none/{subresource}").status == 404


def test_scale(workspace: TestClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    assert workspace.post(path, body).json["status"] == {}
    scale = workspace.get(f"{path}/web/scale").json
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    applied = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}}
    applied["metadata"] = {"name": "web", "namespace": "default"}
    reply = workspace.patch(
        f"{path}/web/scale",
        applied,
        "application/apply-patch+yaml",
        fieldManager="scaler",
        force="true",
    )
    assert reply.status == 200, reply
    assert workspace.get(f"{path}/web").json["spec"]["replicas"] == 4
