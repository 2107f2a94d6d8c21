"""Defaults and checks across fields of Kubernetes' kinds; the texts are kube-apiserver's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.rules import KindRules, before_create, before_update
from pykcp.apis.kube.workloads.other_rules import GENERATION, address_name_errors
from pykcp.apis.kube.workloads.pod_rules import quality_of_service
from pykcp.apis.kube.workloads.rules import workload_kind, workload_rules
from pykcp.apis.kube.workloads.schedules import schedule_problem
from pykcp.apis.kube.workloads.scheduling_checks import NOT_AN_IP
from pykcp.types import Object

LABELS = {"app": "a"}
POD: Object = {"containers": [{"name": "a", "image": "b:1"}], "restartPolicy": "Always"}
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": POD}
SELECTOR: Object = {"matchLabels": LABELS}


def rules(group: str, plural: str) -> KindRules:
    return workload_rules(custom_rules(True, has_status=True), group, plural)


def made(**obj: Any) -> Object:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return deepcopy({"metadata": metadata, **obj})


def errors(group: str, plural: str, **obj: Any) -> list[str]:
    new = made(**obj)
    workload_kind(group, plural).default_safely(new)
    return [error.text() for error in before_create(rules(group, plural), new)[0]]


def deployment(**spec: Any) -> Object:
    return {"selector": SELECTOR, "template": TEMPLATE, **spec}


def pod(**spec: Any) -> Object:
    return {**POD, **spec}


def container(**fields: Any) -> Object:
    return {"containers": [{"name": "a", "image": "b", **fields}]}


def path(**given: Any) -> Object:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    return {"rules": [{"http": {"paths": [{"backend": backend, **given}]}}]}


JOB: Object = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}


_MOUNTED = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
MOUNTING = {**TEMPLATE, "spec": pod(**_MOUNTED)}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("/pods", POD, []),
        ("/pods", {"containers": []}, ["spec.containers: Required value"]),
        ("/pods", container(image=""), ["spec.containers[0].image: Required value"]),
        ("/pods", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), ['spec.containers[0].volumeMounts[0].name: Not found: "v"']),
        ("/pods", pod(restartPolicy="Often"), ['spec.restartPolicy: Unsupported value: "Often": supported values: "Always", "OnFailure", "Never"']),
        ("/pods", container(ports=[{"containerPort": 0}]), ["spec.containers[0].ports[0].containerPort: Required value"]),
        ("/pods", 5, ["spec: Invalid value: 5: must have the form of pods"]),
        ("apps/deployments", deployment(), []),
        ("apps/deployments", deployment(selector={"matchLabels": {"b": "c"}}), ['spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
        ("apps/deployments", deployment(selector={}), ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        ("apps/deployments", deployment(replicas=-1), ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ("apps/deployments", deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}), ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
        ("apps/deployments", deployment(template={**TEMPLATE, "spec": pod(restartPolicy="Never")}), ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ("apps/statefulsets", deployment(), []),
        ("apps/statefulsets", deployment(template=MOUNTING, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]), []),
        ("apps/statefulsets", deployment(template=MOUNTING), ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"']),
        ("apps/daemonsets", deployment(), []),
        ("batch/jobs", JOB, []),
        ("batch/jobs", {"template": {"spec": POD}}, ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ("batch/jobs", {**JOB, "completionMode": "Indexed"}, ["spec.completions: Required value: when completion mode is Indexed"]),
        ("batch/cronjobs", {"schedule": "x", "jobTemplate": {"spec": JOB}}, ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]']),
        ("/services", {"type": "ClusterIP"}, ["spec.ports: Required value"]),
        ("/services", {"type": "ClusterIP", "clusterIP": "None"}, []),
        ("/services", {"type": "ExternalName"}, ["spec.externalName: Required value"]),
        ("/services", {"type": "ClusterIP", "ports": [{"port": 1, "name": "a"}, {"port": 2}]}, ["spec.ports[1].name: Required value"]),
        ("/services", {"type": "ClusterIP", "ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}, ['spec.ports[1].name: Duplicate value: "a"']),
        ("networking.k8s.io/ingresses", path(path="/", pathType="Prefix"), []),
        ("networking.k8s.io/ingresses", path(path="x", pathType="Prefix"), ['spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path']),
        ("networking.k8s.io/ingresses", path(path="/"), ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]),
        ("networking.k8s.io/ingresses", {}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ("/persistentvolumeclaims", {}, ["spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"]),
        ("policy/poddisruptionbudgets", {"minAvailable": 1}, []),
        ("autoscaling/horizontalpodautoscalers", {"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}, ["spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"]),
    ],
)  # fmt: skip
def test_new_objects(kind: str, spec: Any, expected: list[str]) -> None:
    group, _, plural = kind.partition("/")
    assert errors(group, plural, spec=spec) == expected


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("apps/deployments", deployment(), deployment(replicas=5), []),
        ("apps/deployments", deployment(), deployment(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}), 'spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable'),
        ("apps/statefulsets", deployment(), deployment(serviceName="s"), "spec: Forbidden: updates to statefulset spec"),
        ("batch/jobs", JOB, {"template": {"spec": {**POD, "restartPolicy": "OnFailure"}}}, "spec.template: Invalid value"),
        ("/pods", POD, pod(containers=[{"name": "a", "image": "b:2"}]), []),
        ("/pods", POD, pod(containers=[{"name": "a", "image": "b:1", "args": ["x"]}]), "spec: Forbidden: pod updates may not change fields other than"),
        ("storage.k8s.io/storageclasses", {}, {}, []),
    ],
)  # fmt: skip
def test_changed_objects(kind: str, old: Object, new: Object, expected: Any) -> None:
    group, _, plural = kind.partition("/")
    before, after = made(spec=old), made(spec=new)
    for obj in (before, after):
        workload_kind(group, plural).default_safely(obj)
    found = [e.text() for e in before_update(rules(group, plural), after, before)[0]]
    if expected:
        assert len(found) == 1
        assert found[0].startswith(expected)
    else:
        assert found == []


def test_a_new_pod() -> None:
    new = made(spec=container())
    before_create(rules("", "pods"), new)
    spec = new["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["priority"] == 0
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert new["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_pull_policies(image: str, policy: str) -> None:
    obj = made(spec=container(image=image))
    workload_kind("", "pods").default(obj)
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "0"}}, "BestEffort"),
    ],
)  # fmt: skip
def test_quality_of_service(resources: Object, expected: str) -> None:
    assert quality_of_service(container(resources=resources)) == expected


def test_a_new_job_selects_its_own_pods() -> None:
    new = made(spec={"template": {"spec": {**POD, "restartPolicy": "Never"}}})
    before_create(rules("batch", "jobs"), new)
    uid = "batch.kubernetes.io/controller-uid"
    assert new["spec"]["selector"]["matchLabels"] == {uid: "u"}
    assert new["spec"]["template"]["metadata"]["labels"][uid] == "u"


def test_metadata_follow_a_status() -> None:
    old = made(spec=POD, status={"phase": "Pending"})
    new = made(spec={"containers": []}, status={"phase": "Running"})
    new["metadata"]["labels"] = {"new": "label"}
    before_update(rules("", "pods").subresources["status"], new, old)
    assert (new["spec"], new["status"]) == (POD, {"phase": "Running"})
    assert new["metadata"]["labels"] == {"new": "label"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*/5 * * * *", ""),
        ("0 0 1,15 jan-mar mon", ""),
        ("@hourly", ""),
        ("@every 1h30m", ""),
        ("@never", "unrecognized descriptor: @never"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("TZ=UTC * * * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ],
)
def test_schedules(text: str, problem: str) -> None:
    assert schedule_problem(text) == problem


def test_a_first_status_is_one_that_the_schema_accepts() -> None:
    """Schemas of physical clusters say nothing about null where Kubernetes writes it."""
    base = custom_rules(True, has_status=True)
    spec = {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a"}}
    for not_null, expected in (
        (frozenset[str](), {"currentMetrics": None, "desiredReplicas": 0}),
        (frozenset(("currentMetrics",)), {"desiredReplicas": 0}),
    ):
        extended = workload_rules(base, "autoscaling", "horizontalpodautoscalers", not_null)
        new = made(spec=deepcopy(spec))
        before_create(extended, new)
        assert new["status"] == expected


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000, "", "x"])
def test_other_digits_are_no_numbers(number: str) -> None:
    """Python reads more of them than Go, and fewer of them at once."""
    before = made(spec={"template": TEMPLATE}, status={"numberReady": 1})
    before["metadata"]["annotations"] = {GENERATION: number}
    workload_kind("apps", "daemonsets").default_safely(before)
    after = deepcopy(before) | {"status": {"numberReady": 2}}
    before_update(rules("apps", "daemonsets"), after, before)
    assert after["status"] == {"numberReady": 1}
    assert after["metadata"]["annotations"][GENERATION] == "1"
    assert address_name_errors(f"1.1.1.{number}") == [NOT_AN_IP]
