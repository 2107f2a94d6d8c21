"""Helm in a workspace, with Kubernetes' kinds for workloads bound from `root`; see docs/guides/gitops.md."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.clients.helm import find_helm

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubectl import write_kubeconfig
from pykcp.testing.server import server
from pykcp.testing.workspaces import inside, make_workspace

HELM = find_helm()
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
pytestmark = pytest.mark.skipif(HELM is None, reason="there is no helm on this machine")


class Helm:
    """Helm with the kubeconfig of one workspace, and a chart."""

    def __init__(self, folder: pathlib.Path, workspace: TestClient) -> None:
        self.folder, self.workspace = folder, workspace
        self.kubeconfig = write_kubeconfig(
            folder / "kubeconfig",
            replace(workspace.access, path=workspace.prefix),
            folder / "ca.crt",
        )
        self("create", "web")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        assert HELM is not None
        return subprocess.run(
            [HELM, *words],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def replicas(self) -> Any:
        return self.workspace.get(f"{DEPLOYMENTS}/web").json["spec"]["replicas"]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    folder = tmp_path_factory.mktemp("helm")
    with server("--batteries-included=+kubernetes", directory=folder) as shard:
        root = shard.client(cluster="root")
        make_workspace(root, "team")
        workspace = inside(root, "team")
        workspace.post(BINDINGS, binding("kubernetes", "kubernetes", "root"))
        eventually(lambda: workspace.get(DEPLOYMENTS).status == 200, 60)
        yield Helm(folder, workspace)


def test_a_release_from_install_to_uninstall(helm: Helm) -> None:
    assert "STATUS: deployed" in helm("install", "web", "./web")
    assert helm.replicas() == 1
    helm("upgrade", "web", "./web", "--set", "replicaCount=3")
    assert helm.replicas() == 3
    helm("rollback", "web", "1")
    assert helm.replicas() == 1
    history = json.loads(helm("history", "web", "-o", "json"))
    assert [one["status"] for one in history] == ["superseded", "superseded", "deployed"]
    (release,) = json.loads(helm("list", "-o", "json"))
    assert (release["name"], release["revision"]) == ("web", "3")
    helm("uninstall", "web")
    assert helm.workspace.get(f"{DEPLOYMENTS}/web").status == 404
    assert json.loads(helm("list", "-o", "json")) == []


def test_invalid_values_are_rejected(helm: Helm) -> None:
    done = helm.run("install", "broken", "./web", "--set", "service.port=0")
    assert done.returncode == 1
    assert "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535" in done.stderr


def test_a_dry_run_writes_nothing(helm: Helm) -> None:
    helm("install", "dry", "./web", "--dry-run=server")
    assert helm.workspace.get(f"{DEPLOYMENTS}/dry-web").status == 404
