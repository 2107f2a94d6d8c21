"""The program `syncer` as a process for tests, and objects for it to synchronize."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pykcp.apis.kube.workloads import workload_crds
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.multicluster.downstream import write_kubeconfig
from pykcp.testing.server import environment
from pykcp.types import Object

CLUSTER_LABEL = "workloads.kcp.dev/cluster"
QUICK = (
    "--heartbeat-interval=500ms",
    "--lease-duration=2s",
    "--sweep-interval=2s",
    "--namespace-clean-delay=1s",
)
"""Flags that make its times shorter."""
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class SyncerProcess:
    """`syncer` as a child process; it can be killed and started again."""

    def __init__(
        self,
        folder: pathlib.Path,
        cluster: str,
        upstream: Access,
        downstream: str,
        resources: Sequence[str] = (),
        flags: Sequence[str] = QUICK,
    ) -> None:
        """`upstream`: with the path of the workspace; `downstream`: a kubeconfig's text."""
        self._folder, self._cluster = folder, cluster
        self.upstream = write_kubeconfig(folder / f"from-{cluster}.kubeconfig", upstream)
        self.downstream = folder / f"to-{cluster}.kubeconfig"
        self.downstream.write_text(downstream)
        self.log_path = folder / f"syncer-{cluster}.log"
        self._words = [
            f"--from-kubeconfig={self.upstream}",
            f"--to-kubeconfig={self.downstream}",
            f"--workload-cluster-name={cluster}",
            *([f"--resources={','.join(resources)}"] if resources else ()),
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> SyncerProcess:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pykcp.cli.syncer", *self._words],
                stdout=log,
                stderr=log,
                env=environment(),
            )
        return self

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """As a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


@contextmanager
def running(syncer: SyncerProcess) -> Iterator[SyncerProcess]:
    syncer.start()
    try:
        yield syncer
    finally:
        syncer.stop()


def serve_workloads(workspace: TestClient, *resources: str) -> None:
    """Bring kinds of Kubernetes to a workspace, named as plural.group, as CRDs."""
    for crd in workload_crds():
        group = crd["spec"]["group"]
        name = crd["spec"]["names"]["plural"] + (f".{group}" if group else "")
        if name in resources or crd["spec"]["names"]["plural"] in resources:
            made = workspace.post(_CRDS, crd)
            assert made.status in (201, 409), made
    for resource in resources:
        plural, _, group = resource.partition(".")
        path = f"/apis/{group}/v1/{plural}" if group else f"/api/v1/{plural}"
        eventually(partial(_is_served, workspace, path))


def _is_served(workspace: TestClient, path: str) -> bool:
    return workspace.get(path).status == 200


def deployment(name: str, cluster: str = "", replicas: int = 1, image: str = "nginx") -> Object:
    """A Deployment, assigned to a cluster by its label."""
    marks = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "labels": {**marks, **({CLUSTER_LABEL: cluster} if cluster else {})},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": marks},
            "template": {
                "metadata": {"labels": marks},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def config_map(name: str, cluster: str = "", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **({"labels": {CLUSTER_LABEL: cluster}} if cluster else {})},
        "data": data,
    }
