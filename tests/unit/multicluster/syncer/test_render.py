"""What is applied in a cluster for an object of a workspace."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.multicluster.names import Locator
from pykcp.multicluster.syncer.render import TypeName, content_hash, downstream_name, render
from pykcp.types import Object

LOCATOR = Locator("home", "uid-of-cluster", "tenant", "default")


def rendered(kind: TypeName, **fields: Any) -> Object:
    metadata = {"name": "web", "namespace": "default", "uid": "u", "generation": 3}
    obj = {"apiVersion": "v1", "kind": "Any", "metadata": metadata, **fields}
    copy: Object = orjson.loads(render(kind, obj, LOCATOR, "label").body)
    return copy


@pytest.mark.parametrize(
    ("kind", "given", "sent"),
    [
        pytest.param(
            ("", "services"),
            {
                "spec": {
                    "clusterIP": "10.0.0.7",
                    "clusterIPs": ["10.0.0.7"],
                    "healthCheckNodePort": 1,
                    "ports": [{"port": 80, "nodePort": 30000}],
                    "selector": {"app": "web"},
                }
            },
            {"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
            id="addresses of a service",
        ),
        pytest.param(
            ("", "services"),
            {"spec": {"clusterIP": "None", "ports": []}},
            {"spec": {"clusterIP": "None", "ports": []}},
            id="a headless service asks for none",
        ),
        pytest.param(
            ("", "persistentvolumeclaims"),
            {"spec": {"volumeName": "pv", "accessModes": ["ReadWriteOnce"]}},
            {"spec": {"accessModes": ["ReadWriteOnce"]}},
            id="the volume of a claim",
        ),
        pytest.param(
            ("", "serviceaccounts"),
            {"secrets": [{"name": "token"}], "automountServiceAccountToken": False},
            {"automountServiceAccountToken": False},
            id="secrets of an account",
        ),
        pytest.param(
            ("batch", "jobs"),
            {
                "spec": {
                    "selector": {"matchLabels": {"controller-uid": "u"}},
                    "template": {"metadata": {"labels": {"controller-uid": "u", "app": "web"}}},
                }
            },
            {"spec": {"template": {"metadata": {"labels": {"app": "web"}}}}},
            id="the generated selector of a job",
        ),
        pytest.param(
            ("batch", "jobs"),
            {"spec": {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}},
            {"spec": {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}},
            id="the selector of a job that a user chose",
        ),
        pytest.param(
            ("", "pods"), {"spec": {"nodeName": "n"}}, {"spec": {}}, id="the node of a pod"
        ),
        pytest.param(
            ("apps", "deployments"),
            {"spec": {"replicas": 2}, "status": {"replicas": 2}},
            {"spec": {"replicas": 2}},
            id="no status",
        ),
    ],
)
def test_fields_that_the_cluster_decides_are_not_sent(
    kind: TypeName, given: Object, sent: Object
) -> None:
    copy = rendered(kind, **given)
    assert {name: copy[name] for name in copy if name not in _HEAD} == sent


_HEAD = ("apiVersion", "kind", "metadata")


def test_only_metadata_of_the_user_is_sent() -> None:
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "web--east",
            "namespace": "default",
            "uid": "u",
            "generation": 3,
            "resourceVersion": "7",
            "ownerReferences": [{"uid": "root"}],
            "finalizers": ["workloads.kcp.dev/syncer-east"],
            "managedFields": [{}],
            "labels": {
                "app": "web",
                "workloads.kcp.dev/cluster": "east",
                "kcp.dev/owned-by": "web",
            },
            "annotations": {
                "note": "mine",
                "kcp.io/cluster": "tenant",
                "workloads.kcp.dev/downstream-name": "web",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
    }
    made = render(("", "configmaps"), obj, LOCATOR, "label")
    metadata = orjson.loads(made.body)["metadata"]
    assert metadata == {
        "name": "web",
        "namespace": LOCATOR.downstream_namespace(),
        "labels": {"app": "web", "internal.workloads.kcp.dev/cluster": "label"},
        "annotations": {
            "note": "mine",
            "workloads.kcp.dev/origin-uid": "u",
            "workloads.kcp.dev/origin-name": "web--east",
            "workloads.kcp.dev/origin-generation": "3",
            "workloads.kcp.dev/applied-hash": made.hash,
        },
    }


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (("", "configmaps"), "kube-root-ca.crt", "kcp-root-ca.crt"),
        (("", "serviceaccounts"), "default", "kcp-default"),
        (("", "configmaps"), "default", "default"),
        (("", "secrets"), "kube-root-ca.crt", "kube-root-ca.crt"),
    ],
)
def test_names_that_every_namespace_has_are_changed(
    kind: TypeName, name: str, expected: str
) -> None:
    assert downstream_name(kind, {"metadata": {"name": name}}) == expected


def test_the_hash_does_not_depend_on_the_order_of_fields() -> None:
    assert content_hash({"a": 1, "b": [1, 2]}) == content_hash({"b": [1, 2], "a": 1})
    assert content_hash({"a": [1, 2]}) != content_hash({"a": [2, 1]})
