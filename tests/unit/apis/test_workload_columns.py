"""What `kubectl get` shows of Kubernetes' kinds for workloads; the texts are kube-apiserver's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pykcp.apis.kube.workloads import workload_crds
from pykcp.apis.kube.workloads.columns import columns_of
from pykcp.types import Object

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CREATED = "2026-01-01T11:59:00Z"


def cells(group: str, plural: str, **obj: Any) -> dict[str, Any]:
    """The cells of an object by the titles of their columns."""
    columns = columns_of(group, plural)
    assert columns is not None
    whole = {"metadata": {"name": "a", "creationTimestamp": CREATED}, **obj}
    return {column.name: column.cell(whole, NOW) for column in columns if column.cell}


def pod(*statuses: Object, spec: Object | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": one.get("name", "a")} for one in statuses] or [{"name": "a"}]
    return cells(
        "",
        "pods",
        spec={"containers": containers, **(spec or {})},
        status={"phase": "Running", "containerStatuses": list(statuses), **status},
    )


RUNNING: Object = {"ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("found", "ready", "status", "restarts"),
    [
        (pod(phase="Pending"), "0/1", "Pending", "0"),
        (pod(RUNNING), "1/1", "Running", "0"),
        (pod({**RUNNING, "restartCount": 2}), "1/1", "Running", "2"),
        (pod({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T11:57:00Z"}}}), "0/1", "CrashLoopBackOff", "3 (3m ago)"),
        (pod({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}), "0/1", "Error", "0"),
        (pod({"state": {"terminated": {"exitCode": 137, "signal": 9}}}), "0/1", "Signal:9", "0"),
        (pod({"state": {"terminated": {"exitCode": 3}}}), "0/1", "ExitCode:3", "0"),
        (pod(RUNNING, {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}), "1/2", "NotReady", "0"),
        (pod({}, phase="Pending", spec={"initContainers": [{"name": "i"}, {"name": "j"}]}, initContainerStatuses=[{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]), "0/1", "Init:0/2", "0"),
        (pod({}, phase="Pending", spec={"initContainers": [{"name": "i"}]}, initContainerStatuses=[{"name": "i", "state": {"terminated": {"exitCode": 1}}}]), "0/1", "Init:ExitCode:1", "0"),
        (pod(RUNNING, spec={"initContainers": [{"name": "i", "restartPolicy": "Always"}]}, initContainerStatuses=[{"name": "i", "started": True, "ready": True}]), "2/2", "Running", "0"),
        (pod(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]), "0/1", "SchedulingGated", "0"),
        (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", "0"),
    ],
)  # fmt: skip
def test_pods(found: dict[str, Any], ready: str, status: str, restarts: str) -> None:
    assert (found["Ready"], found["Status"], found["Restarts"]) == (ready, status, restarts)
    assert (found["Age"], found["IP"], found["Node"]) == ("60s", "<none>", "<none>")


def test_a_pod_that_is_being_deleted() -> None:
    metadata = {"name": "a", "deletionTimestamp": CREATED}
    found = cells("", "pods", metadata=metadata, spec={}, status={"phase": "Running"})
    assert found["Status"] == "Terminating"


TEMPLATE: Object = {
    "spec": {"containers": [{"name": "a", "image": "b"}, {"name": "c", "image": "d"}]}
}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cells("apps", "deployments", spec={"replicas": 3, "template": TEMPLATE, "selector": {"matchLabels": {"x": "y"}}}, status={"readyReplicas": 1}), {"Ready": "1/3", "Up-to-date": 0, "Containers": "a,c", "Images": "b,d", "Selector": "x=y"}),
        (cells("apps", "replicasets", spec={"replicas": 3}), {"Desired": 3, "Current": 0, "Ready": 0}),
        (cells("apps", "daemonsets", spec={}), {"Desired": 0, "Node Selector": "<none>"}),
        (cells("batch", "jobs", spec={"completions": 2}, status={"succeeded": 1, "startTime": "2026-01-01T11:58:30Z"}), {"Status": "Running", "Completions": "1/2", "Duration": "90s"}),
        (cells("batch", "jobs", spec={"parallelism": 3}, status={"conditions": [{"type": "Failed", "status": "True"}]}), {"Status": "Failed", "Completions": "0/1 of 3", "Duration": ""}),
        (cells("batch", "cronjobs", spec={"schedule": "* * * * *", "suspend": True}, status={"lastScheduleTime": CREATED}), {"Schedule": "* * * * *", "Suspend": "True", "Last Schedule": "60s", "Timezone": "<none>"}),
        (cells("", "services", spec={"type": "ClusterIP", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80, "protocol": "TCP"}]}), {"Cluster-IP": "10.0.0.7", "External-IP": "<none>", "Port(s)": "80/TCP"}),
        (cells("", "services", spec={"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]}), {"External-IP": "<pending>", "Port(s)": "80:30000/TCP"}),
        (cells("", "services", spec={"type": "ExternalName", "externalName": "a.b"}), {"External-IP": "a.b", "Port(s)": "<none>"}),
        (cells("networking.k8s.io", "ingresses", spec={"rules": [{"host": h} for h in "abcde"], "tls": [{}]}), {"Hosts": "a,b,c + 2 more...", "Ports": "80, 443", "Class": "<none>"}),
        (cells("", "nodes", metadata={"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}}, spec={"unschedulable": True}, status={"conditions": [{"type": "Ready", "status": "False"}]}), {"Status": "NotReady,SchedulingDisabled", "Roles": "control-plane"}),
        (cells("", "persistentvolumeclaims", spec={"volumeName": "v"}, status={"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}), {"Status": "Bound", "Capacity": "1Gi", "Access Modes": "RWO"}),
        (cells("policy", "poddisruptionbudgets", spec={"minAvailable": "50%"}), {"Min Available": "50%", "Max Unavailable": "N/A"}),
        (cells("autoscaling", "horizontalpodautoscalers", spec={"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]}), {"Reference": "Deployment/d", "Targets": "cpu: <unknown>/80%", "MinPods": "<unset>"}),
        (cells("storage.k8s.io", "storageclasses", metadata={"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}), {"Name": "s (default)", "ReclaimPolicy": "Delete"}),
        (cells("", "endpoints", subsets=[{"addresses": [{"ip": "::1"}], "ports": [{"port": 8}]}]), {"Endpoints": "[::1]:8"}),
    ],
)  # fmt: skip
def test_cells(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {title: found[title] for title in expected} == expected


@pytest.mark.parametrize("wrong", [5, "text", ["list"], {"containers": 7, "ports": "x"}])
def test_objects_of_another_form_have_empty_cells(wrong: Any) -> None:
    """A CRD of another person can be marked as one of these kinds."""
    for crd in workload_crds():
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        if columns_of(group, plural):
            cells(
                group, plural, spec=wrong, status=wrong, subsets=wrong, endpoints=wrong, ports=wrong
            )
