"""The kinds of multi-cluster reach a workspace through the export of `root`, and only so."""

from __future__ import annotations

import pytest

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    EXPORT,
    bind_workload,
    cluster_object,
)
from pykcp.testing.rights import grant

WORKLOAD = "/apis/workload.kcp.dev/v1alpha1"
TYPES = "/apis/apiresource.kcp.dev/v1alpha1"


def test_they_are_served_where_they_are_bound(cluster: TestClient) -> None:
    assert cluster.get(CLUSTERS).status == 404
    bind_workload(cluster)
    kinds = {r["name"]: r["kind"] for r in cluster.get(WORKLOAD).json["resources"]}
    assert kinds["clusters"] == "Cluster"
    assert kinds["placements"] == "Placement"
    assert kinds["workloadbindings"] == "Binding"
    kinds = {r["name"]: r["kind"] for r in cluster.get(TYPES).json["resources"]}
    assert kinds["apiresourceimports"] == "APIResourceImport"
    assert kinds["negotiatedapiresources"] == "NegotiatedAPIResource"


def test_every_user_may_bind_them(cluster: TestClient) -> None:
    grant(cluster, "alice", "*", "apibindings", "apis.kcp.io")
    alice = {"Impersonate-User": "alice", "Impersonate-Group": "system:authenticated"}
    answer = cluster.post(BINDINGS, binding(EXPORT, EXPORT, "root"), headers=alice)
    assert answer.status == 201, answer
    denied = cluster.get(CLUSTERS, headers=alice)
    assert denied.status == 403


def test_a_cluster_has_defaults(cluster: TestClient) -> None:
    bind_workload(cluster)
    made = cluster.post(CLUSTERS, cluster_object("east", mode="None"))
    assert made.status == 201, made
    assert made.json["spec"] == {"mode": "None", "adopt": False, "unschedulable": False}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mode": "Sideways"}, 'Unsupported value: "Sideways"'),
        (
            {"kubeconfig": "x", "kubeconfigSecretRef": {"namespace": "a", "name": "b"}},
            "kubeconfig and kubeconfigSecretRef are mutually exclusive",
        ),
        ({"kubeconfigSecretRef": {"name": "b"}}, "namespace: Required value"),
        ({"taints": [{"key": "a", "effect": "Nothing"}]}, 'Unsupported value: "Nothing"'),
        ({"evictAfter": "tomorrow"}, "evictAfter"),
    ],
)
def test_a_malformed_cluster_is_rejected(
    cluster: TestClient, spec: dict[str, object], message: str
) -> None:
    bind_workload(cluster)
    answer = cluster.post(CLUSTERS, cluster_object("east", **spec))
    assert answer.status == 422, answer
    assert message in answer.json["message"]


def test_the_name_of_a_cluster_is_a_label_value(cluster: TestClient) -> None:
    bind_workload(cluster)
    answer = cluster.post(CLUSTERS, cluster_object("e" * 64))
    assert answer.status == 422
    assert "name must be no more than 63 characters" in answer.json["message"]
