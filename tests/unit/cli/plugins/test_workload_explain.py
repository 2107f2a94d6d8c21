"""`kubectl kcp workload explain`: the lines that it prints for a Binding."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.workload.explain import explanation

BINDING: dict[str, Any] = {
    "metadata": {"namespace": "default", "name": "deployments.apps.web"},
    "spec": {
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "replicas": 6,
        "clusters": [{"name": "east", "replicas": 6, "reason": "6 of 6 replicas"}],
        "evicting": [
            {
                "cluster": "west",
                "replicas": 3,
                "deadline": "2026-01-01T00:10:00Z",
                "reason": "ClusterNotReady",
            }
        ],
    },
    "status": {
        "conditions": [{"type": "Scheduled", "status": "True", "message": "placed on east=6"}],
        "clusters": [
            {"name": "east", "health": "Progressing", "message": "3 of 6 replicas are available"},
            {"name": "west", "health": "Unknown", "stale": True},
        ],
        "explanation": [
            {"name": "east", "chosen": True, "score": 800, "reason": "6 of 6 replicas (stay 100)"},
            {"name": "west", "chosen": False, "score": 0, "reason": "were not Ready"},
        ],
    },
}


def test_a_workload_that_is_being_moved() -> None:
    assert list(explanation(BINDING)) == [
        "Workload:\tDeployment default/web",
        "Placement:\t<none>",
        "Replicas:\t6",
        "Scheduled:\tTrue, placed on east=6",
        "",
        "CLUSTER\tCHOSEN\tREPLICAS\tHEALTH\tSCORE\tREASON",
        "east\tyes\t6\tProgressing\t800\t6 of 6 replicas (stay 100); 3 of 6 replicas are available",
        "west\tno\t-\tUnknown (stale)\t0\twere not Ready",
        "",
        "LEAVES\tREPLICAS\tUNTIL\tREASON",
        "west\t3\t2026-01-01T00:10:00Z\tClusterNotReady",
    ]


def test_a_follower() -> None:
    leader = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"ref": {"kind": "ConfigMap", "name": "settings"}, "requiredBy": [leader]}
    lines = list(explanation({"metadata": {"namespace": "default"}, "spec": spec}))
    assert "Required by:\tDeployment web" in lines
