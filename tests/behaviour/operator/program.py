"""`kcp operator` as a process, and the objects of a namespace that it works on."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any, Self

from pykcp.programs.operator.names import API_VERSION, KINDS
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.server import environment
from pykcp.testing.sharded import free_ports
from pykcp.types import Object


class OperatorProcess:
    """Started with `with`; `health` and `metrics` are its ports."""

    def __init__(self, cluster: PhysicalCluster, folder: pathlib.Path, *flags: str) -> None:
        self.health, self.metrics = free_ports(2)
        self.log_path = folder / f"operator-{self.health}.log"
        self._words = [
            f"--kubeconfig={cluster.kubeconfig}",
            f"--health-probe-bind-address=127.0.0.1:{self.health}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pykcp", "operator", *self._words],
                stdout=log,
                stderr=log,
                env=environment(),
            )
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


class OperatorNamespace:
    """A namespace with objects of the operator."""

    def __init__(self, client: TestClient, name: str) -> None:
        self.client, self.name = client, name
        made = client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        assert made.status == 201, made

    def collection(self, kind: str) -> str:
        plural = KINDS[kind].resource
        return f"/apis/{API_VERSION}/namespaces/{self.name}/{plural}"

    def create(self, kind: str, name: str, **spec: Any) -> Object:
        obj = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = self.client.post(self.collection(kind), obj)
        assert made.status == 201, made
        return made.json

    def get(self, kind: str, name: str) -> Object:
        found = self.client.get(f"{self.collection(kind)}/{name}")
        return found.json if found.status == 200 else {}

    def delete(self, kind: str, name: str) -> None:
        self.client.drop()  # a connection that was idle may have been closed
        gone = self.client.delete(f"{self.collection(kind)}/{name}")
        assert gone.status == 200, gone

    def create_pod(self, workload: str, name: str, status: Object) -> None:
        """A pod of a workload, with what a kubelet would say of it."""
        labels = self.deployment(workload)["spec"]["selector"]["matchLabels"]
        container = {"name": "main", "image": "example.com/main"}
        path = f"/api/v1/namespaces/{self.name}/pods"
        pod = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}
        made = self.client.post(path, pod)
        assert made.status == 201, made
        made = self.client.patch(f"{path}/{name}/status", {"status": status})
        assert made.status == 200, made

    def deployment(self, name: str) -> Object:
        return self._find(f"/apis/apps/v1/namespaces/{self.name}/deployments/{name}")

    def secret(self, name: str) -> Object:
        return self._find(f"/api/v1/namespaces/{self.name}/secrets/{name}")

    def config_map(self, name: str) -> Object:
        return self._find(f"/api/v1/namespaces/{self.name}/configmaps/{name}")

    def service(self, name: str) -> Object:
        return self._find(f"/api/v1/namespaces/{self.name}/services/{name}")

    def claim(self, name: str) -> Object:
        return self._find(f"/api/v1/namespaces/{self.name}/persistentvolumeclaims/{name}")

    def _find(self, path: str) -> Object:
        found = self.client.get(path)
        return found.json if found.status == 200 else {}

    def condition(self, kind: str, name: str, condition: str) -> Object:
        for one in (self.get(kind, name).get("status") or {}).get("conditions") or ():
            if one["type"] == condition:
                return dict(one)
        return {}

    def phase(self, kind: str, name: str) -> str:
        return str((self.get(kind, name).get("status") or {}).get("phase") or "")

    def roll_out(self, name: str, ready: int | None = None) -> None:
        """What a controller and kubelets would report of a Deployment."""
        deployment = eventually(lambda: self.deployment(name), 30)
        wanted = deployment["spec"]["replicas"]
        count = wanted if ready is None else ready
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": wanted,
            "updatedReplicas": wanted,
            "readyReplicas": count,
            "availableReplicas": count,
        }
        path = f"/apis/apps/v1/namespaces/{self.name}/deployments/{name}/status"
        patched = self.client.patch(path, {"status": status})
        assert patched.status == 200, patched
