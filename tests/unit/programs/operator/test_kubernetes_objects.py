"""Objects of Kubernetes: what is made, what is restored, and what pods say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.programs.operator.objects import configured, made, only, root_shard

from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.drivers.kubernetes.comparing import appliable, contains
from pykcp.programs.operator.drivers.kubernetes.objects import workload_objects
from pykcp.programs.operator.drivers.kubernetes.pods import pods_problem
from pykcp.programs.operator.platform import KubernetesPlatform
from pykcp.types import Object

KUBERNETES = KubernetesPlatform()


def _root(**spec: Any) -> CompiledWorkload:
    return only(configured(root_shard(**spec), platform=KUBERNETES), "root-kcp")


def _of(workload: CompiledWorkload, kind: str) -> Object:
    (found,) = [one for one in workload_objects(workload) if one["kind"] == kind]
    return found


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "LoadBalancer", "loadBalancerClass": "example.com/inner"}, "example.com/inner"),
        ({"loadBalancerClass": "example.com/inner"}, None),  # refused for other types
        ({"type": "LoadBalancer"}, None),
    ],
)
def test_the_class_of_a_load_balancer_is_passed_on(given: Object, wanted: str | None) -> None:
    spec = _of(_root(serviceTemplate={"spec": given}), "Service")["spec"]
    assert spec.get("loadBalancerClass") == wanted


def test_claims_of_devices_are_passed_on() -> None:
    claims = [{"name": "hsm"}]
    pod = {"resourceClaims": [{"name": "hsm", "resourceClaimTemplateName": "hsm"}]}
    root = _root(
        resources={"claims": claims}, deploymentTemplate={"spec": {"template": {"spec": pod}}}
    )
    spec = _of(root, "Deployment")["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == pod["resourceClaims"]
    assert spec["containers"][0]["resources"]["claims"] == claims
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}
    assert CompiledWorkload.from_object(root.to_object()) == root


def test_newer_fields_do_not_change_the_hash_of_what_runs() -> None:
    root = _root()
    described = root.to_object()
    assert "claims" not in described
    assert "load_balancer_class" not in described["service"]
    assert CompiledWorkload.from_object(described) == root


def test_containers_leave_their_last_words() -> None:
    external = {"hostname": "own.example.com", "port": 443}
    server = made(
        "VirtualWorkspace", "own", target={"rootShardRef": {"name": "root"}}, external=external,
        initContainers=[{"name": "first", "command": ["/bin/first"]}],
    )  # fmt: skip
    out = configured(root_shard(), server, platform=KUBERNETES)
    pod = _of(only(out, "own-virtual-workspace"), "Deployment")["spec"]["template"]["spec"]
    containers = [*pod["initContainers"], *pod["containers"]]
    assert [one["terminationMessagePolicy"] for one in containers] == ["FallbackToLogsOnError"] * 2


# --- what is restored --------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "is_right"),
    [
        ({"a": 1, "b": [{"c": 2, "default": 3}], "more": 4}, True),
        ({"a": 2, "b": [{"c": 2}]}, False),
        ({"a": 1, "b": []}, False),
        ({"a": 1, "b": [{"c": 2}, {"c": 3}]}, False),
        ({"b": [{"c": 2}]}, False),
        (None, False),
    ],
)
def test_what_is_wanted_is_looked_for(live: object, is_right: bool) -> None:
    assert contains(live, {"a": 1, "b": [{"c": 2}], "empty": {}}) == is_right


def _claim(storage: str, **more: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"kind": "PersistentVolumeClaim", "spec": {**spec, **more}}


@pytest.mark.parametrize(
    ("live", "wanted", "applied"),
    [
        (None, _claim("8Gi", storageClassName="fast"), _claim("8Gi", storageClassName="fast")),
        (_claim("8Gi", storageClassName="standard"), _claim("16Gi"), _claim("16Gi", storageClassName="standard")),
        # A claim that somebody has enlarged does not shrink, and it cannot change its class.
        (_claim("20Gi"), _claim("8Gi"), _claim("20Gi")),
        (_claim("8Gi", storageClassName="slow"), _claim("8Gi", storageClassName="fast"), _claim("8Gi", storageClassName="slow")),
        (_claim("8Gi", volumeName="pv-1"), _claim("8Gi"), _claim("8Gi")),
    ],
)  # fmt: skip
def test_only_what_can_be_changed_of_a_claim_is_applied(
    live: Object | None, wanted: Object, applied: Object
) -> None:
    assert appliable(wanted, live) == applied


# --- pods --------------------------------------------------------------------------

LOG = "starting\n\nerror: etcd is not reachable\n"
CRASHED = {"exitCode": 1, "reason": "Error", "message": LOG}
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}


def _container(**status: Any) -> Object:
    return {"name": "rootshard", "ready": False, **status}


def _pod(name: str, *containers: Object, created: str = "2026-01-01", **status: Any) -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "status": {"containerStatuses": list(containers), **status},
    }


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        ([], ""),
        ([_pod("a", _container(ready=True, state={"running": {}}, lastState={"terminated": CRASHED}))], ""),
        ([_pod("a", _container(state={"running": {}}))], ""),
        ([_pod("a", _container(state={"waiting": {"reason": "ContainerCreating"}}))], ""),
        ([_pod("a", _container(state=WAITS, lastState={"terminated": CRASHED}))],
         "pod a: rootshard: ended with exit code 1: starting | error: etcd is not reachable"),
        ([_pod("a", _container(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))],
         "pod a: rootshard: OOMKilled, ended with exit code 137"),
        ([_pod("a", _container(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}))],
         "pod a: rootshard: ImagePullBackOff: no such tag"),
        ([_pod("a", conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}])],
         "pod a: 0/3 nodes are available"),
        ([_pod("a", initContainerStatuses=[{"name": "setup", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}])],
         "pod a: setup: ended with exit code 2"),
        ([_pod("a", phase="Failed", message="evicted")], "pod a: evicted"),
        # The newest one counts: the others may be of an earlier revision.
        ([_pod("a", phase="Failed", message="old"), _pod("b", phase="Failed", message="new", created="2026-02-01")],
         "pod b: new"),
        ([{**_pod("a", phase="Failed"), "metadata": {"name": "a", "deletionTimestamp": "now"}}], ""),
    ],
)  # fmt: skip
def test_a_pod_says_why_it_does_not_run(pods: list[Object], problem: str) -> None:
    assert pods_problem(pods) == problem


def test_long_logs_are_cut_at_the_beginning() -> None:
    message = "\n".join(f"line {number} {'x' * 400}" for number in range(100))
    container = _container(state={"terminated": {**CRASHED, "message": message}})
    problem = pods_problem([_pod("a", container)])
    assert len(problem) < 1100
    assert problem.endswith("x" * 400)
    assert "line 99" in problem
    assert "line 90" not in problem
