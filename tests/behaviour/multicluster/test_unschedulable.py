"""Pods of a cluster that no node takes are counted by what they belong to."""

from __future__ import annotations

import asyncio

from pykcp.clients.kubeconfig import parse_endpoint
from pykcp.multicluster.clusters.connection import open_client
from pykcp.multicluster.syncer.render import CopyName
from pykcp.multicluster.syncer.state import StuckReplicas
from pykcp.multicluster.syncer.unschedulable import stuck_replicas
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.types import Object

NAMESPACE = "crowded"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def test_only_pods_without_a_node_count(physical: PhysicalCluster) -> None:
    client = physical.client
    assert client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status == 201
    stuck = _condition("False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
    _pod(physical, "one", "Pending", stuck)
    _pod(physical, "two", "Pending", stuck)
    _pod(physical, "pulling", "Pending", _condition("True", "", ""))
    _pod(physical, "failing", "Running", _condition("True", "", ""))
    found = asyncio.run(_look(physical))
    expected = StuckReplicas(2, "0/3 nodes are available: 3 Insufficient cpu.")
    mine = {key: value for key, value in found.items() if key[1].namespace == NAMESPACE}
    assert mine == {
        ("deployments", CopyName(NAMESPACE, "web")): expected,
        ("replicasets", CopyName(NAMESPACE, "web-5d4f")): expected,
    }


def _condition(status: str, reason: str, message: str) -> Object:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


def _pod(physical: PhysicalCluster, name: str, phase: str, condition: Object) -> None:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5d4f",
        "uid": "11111111-1111-1111-1111-111111111111",
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
    made = physical.client.post(PODS, pod)
    assert made.status == 201, made
    status = {"status": {"phase": phase, "conditions": [condition]}}
    assert physical.client.patch(f"{PODS}/{name}/status", status).status == 200


async def _look(physical: PhysicalCluster) -> dict[tuple[str, CopyName], StuckReplicas]:
    client = await open_client(parse_endpoint(physical.kubeconfig_text()), "tenant")
    try:
        return dict(await stuck_replicas(client))
    finally:
        client.close()
