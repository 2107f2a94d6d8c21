"""A control plane and a cluster that all tests of this folder share."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.syncers import SyncerProcess, serve_workloads
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import inside, make_workspace

RESOURCES = ("deployments.apps", "configmaps", "secrets", "services")


@pytest.fixture(scope="package")
def hub() -> Iterator[ServerProcess]:
    with server() as process:
        yield process


@pytest.fixture(scope="package")
def physical(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    with own_cluster("east", tmp_path_factory.mktemp("clusters")) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Setup:
    """A workspace with a Cluster object, and the cluster behind it."""

    workspace: TestClient
    physical: PhysicalCluster
    cluster: str
    folder: pathlib.Path

    def syncer(
        self, downstream: str = "", upstream: Access | None = None, **more: tuple[str, ...]
    ) -> SyncerProcess:
        access = upstream or replace(self.workspace.access, path=self.workspace.prefix)
        to = downstream or self.physical.kubeconfig_text()
        return SyncerProcess(
            self.folder, self.cluster, access, to, more.pop("resources", RESOURCES), **more
        )

    def downstream_namespace(self, namespace: str = "default") -> str:
        """The copy of a namespace, once it exists."""
        uid = self.workspace.get(f"{CLUSTERS}/{self.cluster}").json["metadata"]["uid"]

        def look() -> str:
            for found in self.physical.client.get("/api/v1/namespaces").json["items"]:
                text = (found["metadata"].get("annotations") or {}).get("kcp.dev/namespace-locator")
                if text and uid in text and f'"namespace":"{namespace}"' in text:
                    return str(found["metadata"]["name"])
            return ""

        return str(eventually(look))


_numbers = itertools.count()


@pytest.fixture
def setup(hub: ServerProcess, physical: PhysicalCluster, tmp_path: pathlib.Path) -> Setup:
    return make_setup(hub, physical, tmp_path)


@pytest.fixture
def another(hub: ServerProcess, physical: PhysicalCluster, tmp_path: pathlib.Path) -> Setup:
    """Another workspace with a Cluster of the same name, which is the same cluster."""
    folder = tmp_path / "another"
    folder.mkdir()
    return make_setup(hub, physical, folder)


def make_setup(hub: ServerProcess, physical: PhysicalCluster, folder: pathlib.Path) -> Setup:
    root = hub.client(cluster="root")
    name = f"sync-{next(_numbers)}"
    make_workspace(root, name)
    workspace = inside(root, name)
    bind_workload(workspace)
    serve_workloads(workspace, *RESOURCES)
    made = workspace.post(CLUSTERS, cluster_object("east", mode="None"))
    assert made.status == 201, made
    return Setup(workspace, physical, "east", folder)
