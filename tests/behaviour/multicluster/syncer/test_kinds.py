"""Ten kinds of Kubernetes and one of a CRD: specs go down, statuses come up."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import pytest
from tests.behaviour.multicluster.syncer.conftest import Setup

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.syncers import CLUSTER_LABEL, running, serve_workloads
from pykcp.types import Object

LABELS = {"app": "web"}
TEMPLATE: Object = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Always"},
}
ONCE: Object = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR: Object = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class SyncedKind(NamedTuple):
    path: str
    kind: str
    content: Object
    status: Object | None = None
    """None: the kind has none."""


KINDS = {
    "configmaps": SyncedKind("/api/v1", "ConfigMap", {"data": {"a": "b"}}),
    "secrets": SyncedKind("/api/v1", "Secret", {"stringData": {"a": "b"}}),
    "serviceaccounts": SyncedKind("/api/v1", "ServiceAccount", {}),
    "services": SyncedKind(
        "/api/v1",
        "Service",
        {"spec": {"ports": [{"port": 80}], "selector": LABELS}},
        {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    ),
    "persistentvolumeclaims": SyncedKind(
        "/api/v1", "PersistentVolumeClaim", {"spec": CLAIM}, {"phase": "Bound"}
    ),
    "deployments.apps": SyncedKind(
        "/apis/apps/v1", "Deployment", {"spec": {"replicas": 2, **SELECTOR}}, {"replicas": 2}
    ),
    "statefulsets.apps": SyncedKind(
        "/apis/apps/v1",
        "StatefulSet",
        {"spec": {"replicas": 2, "serviceName": "web", **SELECTOR}},
        {"replicas": 2},
    ),
    "daemonsets.apps": SyncedKind(
        "/apis/apps/v1",
        "DaemonSet",
        {"spec": SELECTOR},
        {"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0}
        | {"numberReady": 1},
    ),
    "jobs.batch": SyncedKind("/apis/batch/v1", "Job", {"spec": {"template": ONCE}}, {"active": 1}),
    "ingresses.networking.k8s.io": SyncedKind(
        "/apis/networking.k8s.io/v1",
        "Ingress",
        {"spec": {"defaultBackend": BACKEND}},
        {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}},
    ),
    "things.example.com": SyncedKind(
        "/apis/example.com/v1", "Thing", {"spec": {"size": 3}}, {"phase": "Done"}
    ),
}
THINGS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _at(client: TestClient, kind: SyncedKind, resource: str, namespace: str) -> Any:
    path = f"{kind.path}/namespaces/{namespace}/{resource.partition('.')[0]}/web"
    reply = client.get(path)
    return reply.json if reply.status == 200 else None


def _has_status(client: TestClient, kind: SyncedKind, resource: str) -> bool:
    found = (_at(client, kind, resource, "default") or {}).get("status") or {}
    return kind.status is not None and kind.status.items() <= found.items()


@pytest.mark.slow
def test_specs_go_down_and_statuses_come_up_of_every_kind(setup: Setup) -> None:
    workspace, physical = setup.workspace, setup.physical.client
    serve_workloads(workspace, *(one for one in KINDS if one != "things.example.com"))
    for client in (workspace, physical):
        assert client.post(CRDS, THINGS).status in (201, 409)
        eventually(lambda client=client: client.get("/apis/example.com/v1/things").status == 200)
    times: list[float] = []
    with running(setup.syncer(resources=tuple(KINDS))):
        for resource, kind in KINDS.items():
            group = kind.path.removeprefix("/apis/").removeprefix("/api/")
            obj = {
                "apiVersion": group,
                "kind": kind.kind,
                "metadata": {"name": "web", "labels": {**LABELS, CLUSTER_LABEL: "east"}},
                **kind.content,
            }
            plural = resource.partition(".")[0]
            made = workspace.post(f"{kind.path}/namespaces/default/{plural}", obj)
            assert made.status == 201, made
        namespace = setup.downstream_namespace()
        for resource, kind in KINDS.items():
            eventually(partial(_at, physical, kind, resource, namespace), 30)
        for resource, kind in KINDS.items():
            if kind.status is None:
                continue
            path = f"{kind.path}/namespaces/{namespace}/{resource.partition('.')[0]}/web/status"
            written = physical.patch(path, {"status": kind.status})
            assert written.status == 200, written
            began = time.monotonic()
            eventually(partial(_has_status, workspace, kind, resource), 30)
            times.append(time.monotonic() - began)
    assert sorted(times)[len(times) // 2] < 2, times  # a tenth of that on a machine of its own
