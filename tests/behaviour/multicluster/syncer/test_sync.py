"""Objects that are assigned to a cluster run there, and their status comes back."""

from __future__ import annotations

from tests.behaviour.multicluster.syncer.conftest import Setup

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.syncers import CLUSTER_LABEL, deployment, running
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.types import Object

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_specs_go_down_and_statuses_come_up(setup: Setup) -> None:
    made = setup.workspace.post(_DEPLOYMENTS, deployment("web", "east", replicas=3))
    assert made.status == 201, made
    with running(setup.syncer()), WorkloadController(setup.physical.client):
        namespace = setup.downstream_namespace()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        copy = eventually(lambda: _found(setup.physical.client, path))
        assert copy["spec"]["replicas"] == 3
        assert CLUSTER_LABEL not in copy["metadata"]["labels"]
        ready = eventually(lambda: _has_ready(_found(setup.workspace, f"{_DEPLOYMENTS}/web"), 3))
        assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
        assert ready["metadata"]["finalizers"] == ["workloads.kcp.dev/syncer-east"]
        setup.workspace.delete(f"{_DEPLOYMENTS}/web")
        eventually(lambda: setup.workspace.get(f"{_DEPLOYMENTS}/web").status == 404)
        assert setup.physical.client.get(path).status == 404
        eventually(
            lambda: setup.physical.client.get(f"/api/v1/namespaces/{namespace}").status == 404
        )


def _found(client: TestClient, path: str) -> Object | None:
    reply = client.get(path)
    found: Object | None = reply.json if reply.status == 200 else None
    return found


def _has_ready(obj: Object | None, count: int) -> Object | None:
    status = (obj or {}).get("status") or {}
    return obj if status.get("readyReplicas") == count else None
