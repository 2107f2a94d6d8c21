"""What quotas limit of Kubernetes' kinds beside their number, in a workspace that bound them."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"


def namespace(workspace: TestClient, name: str) -> str:
    """A new one; its path."""
    assert workspace.post(NAMESPACES, {"metadata": {"name": name}}).status == 201
    return f"{NAMESPACES}/{name}"


def quota(workspace: TestClient, path: str, hard: dict[str, str], **spec: object) -> None:
    """One whose usage is known."""
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    assert workspace.post(f"{path}/resourcequotas", body).status == 201
    eventually(lambda: used(workspace, path).keys() == hard.keys())


def used(workspace: TestClient, path: str) -> dict[str, str]:
    status = workspace.get(f"{path}/resourcequotas/q").json.get("status") or {}
    found: dict[str, str] = status.get("used") or {}
    return found


def pod(name: str, resources: Object | None = None, **spec: object) -> Object:
    container = {"name": "web", "image": "web:1", "resources": resources or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def test_pods_use_what_their_containers_ask_for(workspace: TestClient) -> None:
    path = namespace(workspace, "compute")
    quota(workspace, path, {"pods": "5", "requests.cpu": "1", "limits.memory": "1Gi"})
    half = {"requests": {"cpu": "600m"}, "limits": {"memory": "100Mi"}}
    assert workspace.post(f"{path}/pods", pod("one", half)).status == 201
    assert used(workspace, path) == {
        "pods": "1",
        "requests.cpu": "600m",
        "limits.memory": "100Mi",
    }
    refused = workspace.post(f"{path}/pods", pod("two", half))
    assert refused.status == 403
    assert refused.json["message"] == (
        'pods "two" is forbidden: exceeded quota: q, requested: requests.cpu=600m, '
        "used: requests.cpu=600m, limited: requests.cpu=1"
    )
    silent = workspace.post(f"{path}/pods", pod("silent"))
    assert silent.json["message"] == (
        'pods "silent" is forbidden: failed quota: q: '
        "must specify limits.memory for: web; requests.cpu for: web"
    )
    ended = {"status": {"phase": "Succeeded"}}
    workspace.patch(f"{path}/pods/one/status", ended, content_type=MERGE)
    eventually(
        lambda: used(workspace, path) == {"pods": "0", "requests.cpu": "0", "limits.memory": "0"}
    )


def test_init_containers_and_overhead(workspace: TestClient) -> None:
    """Those that run one after the other count if they need more than all others together."""
    path = namespace(workspace, "sums")
    quota(workspace, path, {"requests.cpu": "10", "requests.example.com/gpu": "3"})
    first = {
        "name": "first",
        "image": "web:1",
        "resources": {
            "requests": {"cpu": "2", "example.com/gpu": "1"},
            "limits": {"example.com/gpu": "1"},
        },
    }
    body = pod("one", {"requests": {"cpu": "500m"}}, initContainers=[first])
    assert workspace.post(f"{path}/pods", body).status == 201
    assert used(workspace, path) == {"requests.cpu": "2", "requests.example.com/gpu": "1"}


def test_scopes_select_pods(workspace: TestClient) -> None:
    path = namespace(workspace, "scopes")
    quota(workspace, path, {"pods": "1"}, scopes=["Terminating"])
    assert workspace.post(f"{path}/pods", pod("endless")).status == 201
    assert workspace.post(f"{path}/pods", pod("ends", activeDeadlineSeconds=60)).status == 201
    eventually(lambda: used(workspace, path) == {"pods": "1"})
    refused = workspace.post(f"{path}/pods", pod("too", activeDeadlineSeconds=60))
    assert (
        "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
        in refused.json["message"]
    )
    bounded = {"spec": {"activeDeadlineSeconds": 60}}
    refused = workspace.patch(f"{path}/pods/endless", bounded, content_type=MERGE)
    assert refused.status == 403, "the change would bring it into the scope"
    workspace.delete(f"{path}/pods/ends")
    eventually(lambda: used(workspace, path) == {"pods": "0"})
    assert workspace.patch(f"{path}/pods/endless", bounded, content_type=MERGE).status == 200
    assert used(workspace, path) == {"pods": "1"}


def test_priority_classes_as_scopes(workspace: TestClient) -> None:
    path = namespace(workspace, "priorities")
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name in ("first", "second"):
        workspace.post(classes, {**kind, "metadata": {"name": name}, "value": 10})
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": ["first"]}
    quota(workspace, path, {"pods": "1"}, scopeSelector={"matchExpressions": [selector]})
    for name, priority, status in (
        ("one", "first", 201),
        ("two", "second", 201),
        ("three", "first", 403),
    ):
        made = workspace.post(f"{path}/pods", pod(name, priorityClassName=priority))
        assert made.status == status, made.json


def test_services_use_node_ports(workspace: TestClient) -> None:
    path = namespace(workspace, "ports")
    quota(workspace, path, {"services": "2", "services.nodeports": "2"})
    spec = {"type": "NodePort", "ports": [{"name": n, "port": p} for n, p in (("a", 1), ("b", 2))]}
    assert (
        workspace.post(f"{path}/services", {"metadata": {"name": "a"}, "spec": spec}).status == 201
    )
    assert used(workspace, path) == {"services": "1", "services.nodeports": "2"}
    inner = {"metadata": {"name": "b"}, "spec": {"ports": [{"port": 1}]}}
    assert workspace.post(f"{path}/services", inner).status == 201
    opened = {"spec": {"type": "NodePort"}}
    refused = workspace.patch(f"{path}/services/b", opened, content_type=MERGE)
    assert refused.json["message"] == (
        'services "b" is forbidden: exceeded quota: q, requested: services.nodeports=1, '
        "used: services.nodeports=2, limited: services.nodeports=2"
    )
    closed = {"spec": {"type": "ClusterIP"}}
    assert workspace.patch(f"{path}/services/a", closed, content_type=MERGE).status == 200
    eventually(lambda: used(workspace, path) == {"services": "2", "services.nodeports": "0"})
    assert workspace.patch(f"{path}/services/b", opened, content_type=MERGE).status == 200
    assert used(workspace, path) == {"services": "2", "services.nodeports": "1"}


def test_claims_use_storage_of_their_class(workspace: TestClient) -> None:
    path = namespace(workspace, "storage")
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    quota(workspace, path, {"persistentvolumeclaims": "5", "requests.storage": "5Gi", gold: "1Gi"})
    for name, kind, size, status in (
        ("one", "gold", "1Gi", 201),
        ("two", "silver", "3Gi", 201),
        ("three", "gold", "1Gi", 403),
        ("four", "silver", "2Gi", 403),
    ):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": kind,
            "resources": {"requests": {"storage": size}},
        }
        body = {"metadata": {"name": name}, "spec": spec}
        made = workspace.post(f"{path}/persistentvolumeclaims", body)
        assert made.status == status, made.json
    assert used(workspace, path) == {
        "persistentvolumeclaims": "2",
        "requests.storage": "4Gi",
        gold: "1Gi",
    }


def test_large_pods_are_measured(workspace: TestClient) -> None:
    """As small ones are, by a worker; also those that are older than the quota."""
    path = namespace(workspace, "large")
    asking = {"requests": {"cpu": "1m"}}
    many = [{"name": f"c{n}", "image": "i", "resources": asking} for n in range(2_000)]
    before = {**pod("before"), "spec": {"containers": many}}
    assert workspace.post(f"{path}/pods", before).status == 201
    quota(workspace, path, {"pods": "3", "requests.cpu": "5"})
    assert used(workspace, path) == {"pods": "1", "requests.cpu": "2"}
    made = {**pod("made"), "spec": {"containers": many}}
    assert workspace.post(f"{path}/pods", made).status == 201
    assert used(workspace, path) == {"pods": "2", "requests.cpu": "4"}
    labelled = {"metadata": {"labels": {"a": "b"}}}
    changed = workspace.patch(f"{path}/pods/made", labelled, content_type=MERGE)
    assert changed.status == 200
    refused = workspace.post(f"{path}/pods", {**made, "metadata": {"name": "more"}})
    assert refused.json["message"] == (
        'pods "more" is forbidden: exceeded quota: q, requested: requests.cpu=2, '
        "used: requests.cpu=4, limited: requests.cpu=5"
    )
    silent = [{"name": f"c{n}", "image": "i" * 50} for n in range(2_000)]
    refused = workspace.post(f"{path}/pods", {**pod("x"), "spec": {"containers": silent}})
    assert refused.json["message"].startswith(
        'pods "x" is forbidden: failed quota: q: must specify requests.cpu for: c0,c1,'
    )
    best = {"metadata": {"name": "best"}, "spec": {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}}
    assert workspace.post(f"{path}/resourcequotas", best).status == 201
    assert workspace.delete(f"{path}/pods/made").status == 200
    eventually(lambda: used(workspace, path) == {"pods": "1", "requests.cpu": "2"})
