"""What is known of kinds: dependencies, health, and one status of several reports."""

from __future__ import annotations

import pytest

from pykcp.multicluster.interpreter.aggregation import aggregate
from pykcp.multicluster.interpreter.dependencies import Item, relations
from pykcp.multicluster.interpreter.kinds import (
    replicas_of,
    requests_of,
    rules_of,
    usual_strategy,
    with_value,
)
from pykcp.multicluster.interpreter.reports import LeafReport, report_of
from pykcp.types import Object


def of(type_name: str, obj: Object) -> set[str]:
    found = relations(rules_of(type_name, obj), type_name, obj)
    return {f"needs {item}" for item in found.needs} | {f"follows {item}" for item in found.follows}


POD: Object = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "a", "configMap": {"name": "conf"}},
        {"name": "b", "secret": {"secretName": "key"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "d", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
    ],
    "containers": [
        {
            "name": "x",
            "envFrom": [{"configMapRef": {"name": "env"}}],
            "env": [{"name": "y", "valueFrom": {"secretKeyRef": {"name": "var", "key": "k"}}}],
        }
    ],
}
NEEDS = {
    "needs serviceaccounts/robot",
    "needs secrets/pull",
    "needs configmaps/conf",
    "needs secrets/key",
    "needs persistentvolumeclaims/data",
    "needs secrets/projected",
    "needs configmaps/env",
    "needs secrets/var",
}
CASES: dict[str, tuple[str, Object, set[str]]] = {
    "Deployment": ("deployments.apps", {"spec": {"template": {"spec": POD}}}, NEEDS),
    "CronJob": (
        "cronjobs.batch",
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}},
        NEEDS,
    ),
    "default account": (
        "deployments.apps",
        {"spec": {"template": {"spec": {"serviceAccountName": "default"}}}},
        set(),
    ),
    "StatefulSet": (
        "statefulsets.apps",
        {"spec": {"serviceName": "db", "template": {"spec": {}}}},
        {"needs services/db"},
    ),
    "Ingress": (
        "ingresses.networking.k8s.io",
        {
            "spec": {
                "tls": [{"secretName": "cert"}],
                "rules": [{"http": {"paths": [{"backend": {"service": {"name": "web"}}}]}}],
            }
        },
        {"needs secrets/cert", "follows services/web"},
    ),
    "autoscaler": (
        "horizontalpodautoscalers.autoscaling",
        {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}}},
        {"follows deployments.apps/w"},
    ),
    "RoleBinding": (
        "rolebindings.rbac.authorization.k8s.io",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}, {"kind": "User", "name": "u"}],
        },
        {"needs roles.rbac.authorization.k8s.io/r", "follows serviceaccounts/s"},
    ),
    "annotation": (
        "widgets.example.io",
        {"metadata": {"annotations": {"workloads.kcp.dev/depends-on": "configmaps/a, secrets/b"}}},
        {"needs configmaps/a", "needs secrets/b"},
    ),
}


@pytest.mark.parametrize(("type_name", "obj", "expected"), CASES.values(), ids=CASES)
def test_dependencies(type_name: str, obj: Object, expected: set[str]) -> None:
    assert of(type_name, obj) == expected


def test_a_service_selects_pods() -> None:
    service = relations(
        rules_of("services", {}), "services", {"spec": {"selector": {"app": "web"}}}
    )
    assert service.selector == (("app", "web"),)
    template = {"metadata": {"labels": {"app": "web", "x": "y"}}}
    found = relations(
        rules_of("deployments.apps", {}), "deployments.apps", {"spec": {"template": template}}
    )
    assert set(service.selector) <= set(found.pod_labels)
    assert str(Item("services", "a")) == "services/a"


def test_replicas_and_requests() -> None:
    obj = {"spec": {"replicas": 3}}
    assert replicas_of(rules_of("deployments.apps", obj), obj) == 3
    assert replicas_of(rules_of("daemonsets.apps", obj), obj) is None
    assert replicas_of(rules_of("widgets.example.io", obj, has_scale=True), obj) == 3
    assert replicas_of(rules_of("widgets.example.io", obj), obj) is None
    assert with_value(obj, ("spec", "replicas"), 5) == {"spec": {"replicas": 5}}
    assert obj == {"spec": {"replicas": 3}}
    cpu = {"resources": {"requests": {"cpu": "250m", "memory": "1Ki"}}}
    found = requests_of({"containers": [cpu, cpu], "initContainers": [cpu]})
    assert found == {"cpu": 500, "memory": 2_048_000}


def reported(
    cluster: str, generation: int = 2, stale: bool = False, **status: object
) -> LeafReport:
    return LeafReport(cluster, status, generation, "Healthy", is_stale=stale)


def condition(kind: str, status: str, reason: str = "R") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": kind.lower()}


ROOT: Object = {"metadata": {"generation": 2}}


def test_counts_are_added_and_the_generation_waits_for_all() -> None:
    a = reported("a", replicas=2, readyReplicas=2, observedGeneration=7)
    b = reported("b", replicas=3, readyReplicas=1, observedGeneration=1)
    assert aggregate(ROOT, [a, b]) == {"replicas": 5, "readyReplicas": 3, "observedGeneration": 2}
    late = reported("b", 1, replicas=3, observedGeneration=1)
    assert aggregate(ROOT, [a, late])["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("True", "True"), "True"),
        (("True", "False"), "False"),
        (("True", "Unknown"), "Unknown"),
        (("False", "Unknown"), "False"),
    ],
)
def test_conditions(statuses: tuple[str, str], expected: str) -> None:
    reports = [
        reported(name, conditions=[condition("Available", status)])
        for name, status in zip("ab", statuses, strict=True)
    ]
    (found,) = aggregate(ROOT, reports)["conditions"]
    assert found["status"] == expected


def test_conditions_of_lost_clusters_and_of_all() -> None:
    lost = reported("b", stale=True, conditions=[condition("Available", "True")])
    well = reported("a", conditions=[condition("Available", "True")])
    (found,) = aggregate(ROOT, [well, lost])["conditions"]
    assert (found["status"], found["reason"]) == ("Unknown", "ClusterNotReady")
    failed = reported("a", conditions=[condition("Failed", "True")])
    fine = reported("b", conditions=[condition("Failed", "False")])
    assert aggregate(ROOT, [failed, fine])["conditions"][0]["status"] == "True"
    done = reported("a", conditions=[condition("Complete", "True")])
    assert "conditions" not in aggregate(ROOT, [done, reported("b", active=1)])


def test_addresses_are_listed_and_equal_values_kept() -> None:
    a = reported("a", loadBalancer={"ingress": [{"ip": "1.1.1.1"}]}, phase="Bound", other=1)
    b = reported("b", loadBalancer={"ingress": [{"ip": "2.2.2.2"}]}, phase="Bound", other=2)
    found = aggregate(ROOT, [a, b])
    assert found["loadBalancer"]["ingress"] == [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]
    assert found["phase"] == "Bound"
    assert "other" not in found


def leaf(state: str, generation: int = 3, **status: object) -> Object:
    notes = {"workloads.kcp.dev/root-generation": "2"}
    if state:
        notes["workloads.kcp.dev/sync-state"] = state
    return {
        "metadata": {"generation": generation, "annotations": notes},
        "spec": {"replicas": 2},
        "status": status,
    }


HEALTH = {
    "not applied": (leaf(""), "Progressing", 0),
    "failed": (leaf('{"appliedGeneration":0,"reason":"Conflict","error":"no"}'), "Unhealthy", 0),
    "old generation": (leaf('{"appliedGeneration":1}', observedGeneration=2), "Progressing", 0),
    "running": (
        leaf('{"appliedGeneration":1}', observedGeneration=3, availableReplicas=2),
        "Healthy",
        2,
    ),
    "starting": (
        leaf('{"appliedGeneration":1}', observedGeneration=3, availableReplicas=1),
        "Progressing",
        2,
    ),
}


@pytest.mark.parametrize(("obj", "health", "generation"), HEALTH.values(), ids=HEALTH)
def test_health(obj: Object, health: str, generation: int) -> None:
    rules = rules_of("deployments.apps", obj)
    found = report_of(obj, rules, "a", is_stale=False, is_leaving=False)
    assert (found.health, found.generation) == (health, generation)


CLAIMING: Object = {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}
EPHEMERAL: Object = {"volumes": [{"name": "a", "emptyDir": {}}]}


@pytest.mark.parametrize(("type_name", "pod", "placed_in", "expected"), [
    ("deployments.apps", EPHEMERAL, 0, "Divided"),
    ("deployments.apps", CLAIMING, 0, "Single"),
    ("deployments.apps", CLAIMING, 1, "Single"),
    ("deployments.apps", CLAIMING, 2, "Divided"),
    ("replicasets.apps", CLAIMING, 0, "Single"),
    ("daemonsets.apps", CLAIMING, 0, "Duplicated"),
    ("jobs.batch", CLAIMING, 0, "Single"),
    ("configmaps", {}, 0, "Duplicated"),
])  # fmt: skip
def test_a_workload_with_claims_is_not_divided(
    type_name: str, pod: Object, placed_in: int, expected: str
) -> None:
    obj: Object = {"spec": {"replicas": 2, "template": {"spec": pod}}}
    assert usual_strategy(rules_of(type_name, obj), obj, type_name, placed_in) == expected
