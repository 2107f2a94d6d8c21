"""A real kube-apiserver beside one of our own servers: its types are read, and both agree."""

from __future__ import annotations

import pathlib

import pytest
from aiohttp import web

from pykcp.clients.kubeconfig import parse_endpoint
from pykcp.machinery.negotiation.openapi import Unconvertible
from pykcp.multicluster.clusters.connection import open_client
from pykcp.multicluster.importing.discovery import ClusterTypes
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import (
    PhysicalCluster,
    missing_for_real_cluster,
    real_cluster,
)
from pykcp.testing.multicluster.faults import HttpFaults, status_answer
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    IMPORTS,
    cluster_object,
    condition_of,
    is_ready,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(missing_for_real_cluster()), reason=f"missing: {missing_for_real_cluster()}"
    ),
]
TYPES = ["deployments.apps", "statefulsets.apps", "services", "jobs.batch", "pods"]


async def convertible(kubeconfig: str) -> tuple[list[str], list[str]]:
    """All types of a cluster: those that a schema describes, and the others."""
    client = await open_client(parse_endpoint(kubeconfig), "")
    types = ClusterTypes(client)
    good, bad = [], []
    try:
        for resource in await types.resources():
            try:
                await types.schema(resource)
                good.append(resource.name)
            except Unconvertible as error:
                bad.append(f"{resource.name}: {error}")
    finally:
        client.close()
    return good, bad


def _without_v3(request: web.Request) -> web.Response | None:
    if request.path.startswith("/openapi/v3"):
        return status_answer(404, "NotFound", "the server could not find the requested resource")
    return None


async def test_types_of_a_real_cluster(
    workspace: TestClient, physical: PhysicalCluster, tmp_path: pathlib.Path
) -> None:
    with real_cluster("real", tmp_path) as real, HttpFaults(real.client.access) as old:
        old.faults.verdict = _without_v3  # as servers before 1.24
        clusters = {
            "own": physical.kubeconfig_text(),
            "real": real.kubeconfig_text(),
            "old": real.kubeconfig_text(old.port, old.authority),
        }
        for name in ("real", "old"):
            good, bad = await convertible(clusters[name])
            assert len(good) >= 0.95 * len(good + bad), bad
        whole = [one for one in old.requests if one.path == "/openapi/v2"]
        assert len(whole) == 1  # it has megabytes
        for name, text in clusters.items():
            obj = cluster_object(
                name,
                kubeconfig=text,
                syncResources=TYPES,
                schemaUpdateStrategy="UpdatePublished",
            )
            assert workspace.post(CLUSTERS, obj).status == 201
        for name in clusters:
            eventually(lambda name=name: is_ready(workspace, name), 30)
        for name in clusters:
            path = f"deployments.{name}.v1.apps"
            eventually(
                lambda path=path: (
                    condition_of(workspace, IMPORTS, path, "Compatible").get("status") == "True"
                ),
                30,
            )
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"workloads.kcp.dev/cluster": "real"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
                },
            },
        }
        path = "/apis/apps/v1/namespaces/default/deployments"
        eventually(lambda: workspace.post(path, deployment).status in (201, 409), 30)
        # The controllers of the real cluster act, and their report comes back.
        eventually(
            lambda: (
                (workspace.get(f"{path}/web").json.get("status") or {}).get("unavailableReplicas")
                == 2
            ),
            60,
        )
        for name in clusters:
            assert workspace.delete(f"{CLUSTERS}/{name}").status == 200
        for name in clusters:
            eventually(lambda name=name: workspace.get(f"{CLUSTERS}/{name}").status == 404, 30)
