"""Pods of a cluster that no node takes are counted by what they belong to."""

from __future__ import annotations

import asyncio

from pykcp.clients.kubeconfig import parse_endpoint
from pykcp.multicluster.clusters.connection import open_client
from pykcp.multicluster.syncer.render import CopyName
from pykcp.multicluster.syncer.state import StuckReplicas
from pykcp.multicluster.syncer.unschedulable import stuck_replicas
from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.types import Object

NAMESPACE = "crowded"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def test_only_pods_without_a_node_count(physical: PhysicalCluster) -> None:
    client = physical.client
    assert client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status == 201
    made = client.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets", _replica_set())
    assert made.status == 201, made
    uid = made.json["metadata"]["uid"]
    stuck = _condition("False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
    _pod(physical, "one", uid, "Pending", stuck)
    _pod(physical, "two", uid, "Pending", stuck)
    _pod(physical, "pulling", uid, "Pending", _condition("True", "", ""))
    _pod(physical, "failing", uid, "Running", _condition("True", "", ""))
    found = asyncio.run(_look(physical))
    expected = StuckReplicas(2, "0/3 nodes are available: 3 Insufficient cpu.")
    mine = {key: value for key, value in found.items() if key[1].namespace == NAMESPACE}
    assert mine == {
        ("deployments", CopyName(NAMESPACE, "web")): expected,
        ("replicasets", CopyName(NAMESPACE, "web-5d4f")): expected,
    }


def _condition(status: str, reason: str, message: str) -> Object:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


def _replica_set() -> Object:
    marks = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-5d4f"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": marks},
            "template": {
                "metadata": {"labels": marks},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    }


def _pod(
    physical: PhysicalCluster, name: str, owner_uid: str, phase: str, condition: Object
) -> None:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5d4f",
        "uid": owner_uid,
        "controller": True,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"pod-template-hash": "5d4f"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    eventually(lambda: physical.client.post(PODS, pod).status == 201)  # its account is made first
    status = {"status": {"phase": phase, "conditions": [condition]}}
    assert physical.client.patch(f"{PODS}/{name}/status", status).status == 200


async def _look(physical: PhysicalCluster) -> dict[tuple[str, CopyName], StuckReplicas]:
    client = await open_client(parse_endpoint(physical.kubeconfig_text()), "tenant")
    try:
        return dict(await stuck_replicas(client))
    finally:
        client.close()
