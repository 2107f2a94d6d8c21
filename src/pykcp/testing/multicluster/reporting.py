"""Clusters of mode None whose reports a test writes: for tests of placement, which need no copies."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from pykcp.multicluster.names import CLUSTER_LABEL, SYNC_STATE, syncer_finalizer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    is_ready,
)
from pykcp.types import Object

FLAGS = ("--cluster-heartbeat-threshold=1h", "--cluster-recovery=0s")
"""For servers of such tests: one heartbeat is enough."""
_beats = itertools.count(1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BINDINGS = "/apis/workload.kcp.dev/v1alpha1/namespaces/default/workloadbindings"
PLACEMENTS = "/apis/workload.kcp.dev/v1alpha1/namespaces/default/placements"
PATHS = {
    "deployments.apps": "/apis/apps/v1/namespaces/default/deployments",
    "statefulsets.apps": "/apis/apps/v1/namespaces/default/statefulsets",
    "daemonsets.apps": "/apis/apps/v1/namespaces/default/daemonsets",
    "jobs.batch": "/apis/batch/v1/namespaces/default/jobs",
    "services": "/api/v1/namespaces/default/services",
    "persistentvolumeclaims": "/api/v1/namespaces/default/persistentvolumeclaims",
    "ingresses.networking.k8s.io": "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    "configmaps": "/api/v1/namespaces/default/configmaps",
    "secrets": "/api/v1/namespaces/default/secrets",
    "serviceaccounts": "/api/v1/namespaces/default/serviceaccounts",
    "widgets.example.io": "/apis/example.io/v1/namespaces/default/widgets",
}
KINDS = {
    "deployments.apps": "Deployment",
    "statefulsets.apps": "StatefulSet",
    "daemonsets.apps": "DaemonSet",
    "jobs.batch": "Job",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "ingresses.networking.k8s.io": "Ingress",
    "widgets.example.io": "Widget",
}
"""Those that a workspace does not have by itself."""


def install_types(client: TestClient, types: Iterable[str] = KINDS) -> None:
    """Definitions as negotiation publishes them, with a schema that accepts everything."""
    for name in types:
        plural, _, group = name.partition(".")
        kind = KINDS[name]
        crd_name = name if group else f"{plural}.core"
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            },
        }
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": crd_name,
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": group,
                "names": {
                    "plural": plural,
                    "singular": kind.lower(),
                    "kind": kind,
                    "listKind": f"{kind}List",
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        made = client.post(CRDS, body)
        assert made.status in (201, 409), made
    for name in types:
        eventually(partial(_is_served, client, PATHS[name]))


def _is_served(client: TestClient, path: str) -> bool:
    return client.get(path).status == 200


def now(offset: float = 0.0) -> str:
    """Seconds from now as a timestamp."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


def register(
    client: TestClient,
    name: str,
    labels: dict[str, str] | None = None,
    types: Iterable[str] = PATHS,
    **spec: Any,
) -> None:
    """A cluster of mode None that is Ready and accepts the types."""
    body = cluster_object(name, mode="None", **spec)
    body["metadata"]["labels"] = labels or {}
    made = client.post(CLUSTERS, body)
    assert made.status == 201, made
    beat(client, name)
    eventually(partial(is_ready, client, name))
    beat(client, name, types=types)


def beat(
    client: TestClient,
    name: str,
    *,
    is_well: bool = True,
    types: Iterable[str] | None = None,
    **more: Any,
) -> None:
    """A heartbeat, as the syncer of a cluster sends it."""
    fields: Object = {
        "lastSyncerHeartbeatTime": now(next(_beats)),
        "syncer": {"downstreamReady": is_well},
        **more,
    }
    if types is not None:
        fields["syncedResources"] = [
            {
                "group": one.partition(".")[2],
                "resource": one.partition(".")[0],
                "version": "v1",
                "state": "Accepted",
            }
            for one in types
        ]
    answer = client.patch(f"{CLUSTERS}/{name}/status", {"status": fields})
    assert answer.status == 200, answer


def lose(client: TestClient, *names: str) -> None:
    """Heartbeats say that these clusters are not ready, until that is believed."""
    for name in names:
        for _ in range(3):
            beat(client, name, is_well=False)
        eventually(partial(_is_lost, client, name))


def _is_lost(client: TestClient, name: str) -> bool:
    return not is_ready(client, name)


def workspace_with(client: TestClient, *clusters: str, types: Iterable[str] = ()) -> TestClient:
    """Types and clusters of a fresh workspace."""
    bind_workload(client)
    wanted = list(types) or ["deployments.apps"]
    install_types(client, [one for one in wanted if one in KINDS])
    for name in clusters:
        register(client, name)
    return client


def deployment(name: str = "web", replicas: int = 10, **pod: Any) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}], **pod},
            },
        },
    }


def leaves(client: TestClient, type_name: str = "deployments.apps") -> dict[str, Object]:
    """By name; those that are being deleted included."""
    found = client.get(PATHS[type_name], labelSelector=CLUSTER_LABEL).json["items"]
    return {one["metadata"]["name"]: one for one in found}


def shares(client: TestClient, root: str = "web") -> dict[str, int]:
    """Replicas by cluster, of leaves that are not being deleted."""
    return {
        one["metadata"]["labels"][CLUSTER_LABEL]: one["spec"]["replicas"]
        for one in leaves(client).values()
        if [owner["name"] for owner in one["metadata"].get("ownerReferences") or ()] == [root]
        and not one["metadata"].get("deletionTimestamp")
    }


def report(client: TestClient, *clusters: str, type_name: str = "deployments.apps") -> None:
    """What the syncers of these clusters do: all leaves are applied and run, deleted ones are gone."""
    path = PATHS[type_name]
    for name, leaf in leaves(client, type_name).items():
        metadata = leaf["metadata"]
        cluster = metadata["labels"][CLUSTER_LABEL]
        if clusters and cluster not in clusters:
            continue
        if metadata.get("deletionTimestamp"):
            kept = [f for f in metadata["finalizers"] if f != syncer_finalizer(cluster)]
            client.patch(f"{path}/{name}", {"metadata": {"finalizers": kept}})
            continue
        generation = metadata.get("generation", 0)
        state = json.dumps({"appliedGeneration": generation, "time": now()})
        client.patch(f"{path}/{name}", {"metadata": {"annotations": {SYNC_STATE: state}}})
        count = (leaf.get("spec") or {}).get("replicas")
        if count is not None:
            client.patch(f"{path}/{name}/status", {"status": _running(generation, count)})


def _running(generation: int, count: int) -> Object:
    condition = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    return {
        "observedGeneration": generation,
        "replicas": count,
        "updatedReplicas": count,
        "readyReplicas": count,
        "availableReplicas": count,
        "conditions": [condition],
    }


def binding(client: TestClient, name: str = "deployments.apps.web") -> Object | None:
    answer = client.get(f"{BINDINGS}/{name}")
    return answer.json if answer.status == 200 else None


def condition_of(obj: Object | None, kind: str) -> Object:
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})


def place(client: TestClient, name: str = "rules", **spec: Any) -> None:
    """A Placement of the namespace `default`."""
    body = {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = client.post(PLACEMENTS, body)
    assert answer.status == 201, answer
