"""A stand-in for kubelets and cluster DNS: pods of a real API server run as processes.

Each pod has a loopback address, and a mount namespace in which its volumes are at their paths
and `/etc/hosts` resolves the names of Services to the pods that are ready.
"""

from __future__ import annotations

import base64
import http.client
import os
import pathlib
import random
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from pykcp.storage.testing import find_etcd
from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.server import environment
from pykcp.types import Object

_MODULES = {
    "/kcp": "pykcp",
    "/kcp-front-proxy": "pykcp.cli.kcp_front_proxy",
    "/cache-server": "pykcp.cli.cache_server",
    "/virtual-workspaces": "pykcp.cli.virtual_workspaces",
}
_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
_PROBE_SECONDS = 0.3
_SCRIPT = """set -e
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$POD/etc,workdir=$POD/etc-work" /etc
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$POD/lib,workdir=$POD/lib-work" /var/lib
mount -t tmpfs tmpfs /run
while read -r source path; do mkdir -p "$path"; mount --bind "$source" "$path"; done < "$POD/mounts"
mount --bind "$HOSTS" /etc/hosts
exec "$@"
"""


def missing_for_pods() -> str:
    """What this machine lacks to run pods; empty if nothing."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return "mount namespaces"
    words = ["unshare", "-m", "--propagation", "private", "true"]
    return "mount namespaces" if subprocess.run(words, check=False).returncode else ""


class ClusterNames:
    """Names of Services, for the pods and for the test itself."""

    def __init__(self, path: pathlib.Path, client: TestClient) -> None:
        self.path, self._client = path, client
        self._lock = threading.Lock()
        self._ready: dict[str, tuple[str, Object, str]] = {}
        self._others: dict[str, str] = {}
        """Names outside of the cluster, and the Services that they lead to."""
        self.hosts: dict[str, str] = {}
        """Names of single pods, ready or not: those of StatefulSets."""
        self.table: dict[str, list[str]] = {}
        path.write_text("127.0.0.1 localhost\n")

    def lead(self, name: str, service: str) -> None:
        """A name of the outside world for `service.namespace`."""
        self._others[name] = service
        self.refresh()

    def set(self, key: str, pod: tuple[str, Object, str] | None) -> None:
        """Namespace, labels and address of a pod that is ready, or None."""
        with self._lock:
            if pod is None:
                self._ready.pop(key, None)
            else:
                self._ready[key] = pod
        self.refresh()

    def refresh(self) -> None:
        services = self._client.get("/api/v1/services").json["items"]
        with self._lock:
            table: dict[str, list[str]] = {}
            for service in services:
                name, space = service["metadata"]["name"], service["metadata"]["namespace"]
                wanted = (service["spec"].get("selector") or {}).items()
                found = [
                    address
                    for namespace, labels, address in self._ready.values()
                    if namespace == space and wanted and wanted <= labels.items()
                ]
                short = f"{name}.{space}"
                for full in (short, f"{short}.svc", f"{short}.svc.cluster.local"):
                    table[full] = found
            for name, service in self._others.items():
                table[name] = table.get(service, [])
            table |= {name: [address] for name, address in self.hosts.items()}
            self.table = table
            lines = [f"{one} {name}" for name, found in table.items() for one in found]
            self.path.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def resolve(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`socket.getaddrinfo` that knows these names."""

        def find(host: Any, *rest: Any, **more: Any) -> Any:
            return real((self.table.get(host) or [host])[0], *rest, **more)

        return find


class RunningPod:
    """One pod: its process is restarted when it ends, and its readiness is reported."""

    def __init__(self, kubelet: Kubelet, pod: Object, address: str) -> None:
        self._kubelet, self._pod, self.address = kubelet, pod, address
        metadata = pod["metadata"]
        self.namespace, self.name = metadata["namespace"], metadata["name"]
        self.key = f"{self.namespace}/{self.name}"
        self._folder = kubelet.folder / self.namespace / self.name
        self._stop, self._writing = threading.Event(), threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.restarts = 0
        self._ready = False
        spec = pod["spec"]
        if spec.get("hostname") and spec.get("subdomain"):
            host = f"{spec['hostname']}.{spec['subdomain']}.{self.namespace}.svc"
            kubelet.names.hosts[host] = address
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def labels(self) -> Object:
        return dict(self._pod["metadata"].get("labels") or {})

    def stop(self) -> None:
        self._stop.set()

    def wait(self) -> None:
        self._thread.join(30)

    # -- files -----------------------------------------------------------------------------

    def _mounts(self, container: Object) -> Iterator[tuple[pathlib.Path, str]]:
        volumes = {one["name"]: one for one in self._pod["spec"].get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            volume = volumes[mount["name"]]
            source = self._folder / "volumes" / volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                source = self._kubelet.folder / self.namespace / "claims" / claim["claimName"]
            source.mkdir(parents=True, exist_ok=True)
            yield source, mount["mountPath"]
        if self._pod["spec"].get("automountServiceAccountToken", True):
            yield self._account(), _ACCOUNT

    def write_volumes(self) -> bool:
        """Copy Secrets and ConfigMaps, as kubelets do again and again; whether all exist."""
        with self._writing:
            return self._write_volumes()

    def _write_volumes(self) -> bool:
        for volume in self._pod["spec"].get("volumes") or ():
            files = dict(self._files(volume))
            if None in files.values():
                return False
            write_together(self._folder / "volumes" / volume["name"], files)
        return True

    def _files(self, volume: Object) -> Iterator[tuple[str, bytes | None]]:
        sources = list(volume.get("projected", {}).get("sources", ()))
        if secret := volume.get("secret"):
            sources.append({"secret": {"name": secret["secretName"], **secret}})
        if config := volume.get("configMap"):
            sources.append({"configMap": config})
        for source in sources:
            (kind, given), *_ = source.items()
            data = self._kubelet.data(kind, self.namespace, given["name"])
            if data is None:
                yield given["name"], None
                continue
            items = given.get("items") or [{"key": key, "path": key} for key in data]
            for item in items:
                yield item["path"], data.get(item["key"])

    def _account(self) -> pathlib.Path:
        where = self._folder / "account"
        where.mkdir(parents=True, exist_ok=True)
        name = self._pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        made = self._kubelet.client.post(path, {"spec": {}})
        assert made.status == 201, made
        (where / "token").write_text(made.json["status"]["token"])
        (where / "ca.crt").write_text(self._kubelet.client.access.ca)
        (where / "namespace").write_text(self.namespace)
        return where

    # -- the process -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self.write_volumes():
            if self._stop.wait(_PROBE_SECONDS):
                return
        spec = self._pod["spec"]
        for step in spec.get("initContainers") or ():
            while self._start(step).wait() != 0:
                if self._stop.wait(_PROBE_SECONDS):
                    return
        (container,) = spec["containers"]
        while not self._stop.is_set():
            self.process = self._start(container)
            while self.process.poll() is None and not self._stop.is_set():
                self._report(self._probe(container))
                self._stop.wait(_PROBE_SECONDS)
            if self._stop.is_set():
                break
            self._report(is_ready=False)
            if self.process.poll() is not None:
                self.restarts += 1
                self._stop.wait(1)
        self._kubelet.names.set(self.key, None)
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _start(self, container: Object) -> subprocess.Popen[bytes]:
        for name in ("etc", "etc-work", "lib", "lib-work"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / name).mkdir(parents=True)
        mounts = [f"{source} {path}\n" for source, path in self._mounts(container)]
        (self._folder / "mounts").write_text("".join(mounts))
        variables = {
            one["name"]: one.get("value") or self.name for one in container.get("env") or ()
        }
        access = self._kubelet.client.access
        words = ["unshare", "-m", "--propagation", "private", "sh", "-c", _SCRIPT, "pod"]
        with (self._folder / f"{container['name']}.log").open("ab") as log:
            return subprocess.Popen(
                [*words, *self._words(container, variables)],
                stdout=log,
                stderr=log,
                env={
                    **environment(),
                    **variables,
                    "POD": str(self._folder),
                    "HOSTS": str(self._kubelet.names.path),
                    "KUBERNETES_SERVICE_HOST": access.host,
                    "KUBERNETES_SERVICE_PORT": str(access.port),
                },
            )

    def _words(self, container: Object, variables: dict[str, str]) -> list[str]:
        program, *rest = [*(container.get("command") or ()), *(container.get("args") or ())]
        for name, value in variables.items():
            rest = [word.replace(f"$({name})", value) for word in rest]
        # All interfaces of a pod are its address here.
        rest = [re.sub(r"=:(\d+)$", f"={self.address}:\\1", word) for word in rest]
        rest = [word.replace("0.0.0.0", self.address) for word in rest]
        if program.endswith("/etcd"):
            return [str(find_etcd()), *rest]
        if program not in _MODULES:
            return [program, *rest]
        if rest[:1] != ["operator"]:
            rest.append(f"--bind-address={self.address}")
        return [sys.executable, "-m", _MODULES[program], *rest]

    def _probe(self, container: Object) -> bool:
        probe = (container.get("readinessProbe") or {}).get("httpGet")
        if probe is None:
            return True
        ports = {one["name"]: one["containerPort"] for one in container.get("ports") or ()}
        port = ports.get(probe["port"], probe["port"])
        connection: http.client.HTTPConnection
        if probe.get("scheme") == "HTTPS":  # kubelets do not verify servers
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(self.address, port, timeout=5, context=context)
        else:
            connection = http.client.HTTPConnection(self.address, port, timeout=5)
        try:
            connection.request("GET", probe["path"])
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _report(self, is_ready: bool) -> None:
        if is_ready == self._ready:
            return
        self._ready = is_ready
        found = (self.namespace, self.labels, self.address) if is_ready else None
        self._kubelet.names.set(self.key, found)
        word = "True" if is_ready else "False"
        status = {
            "phase": "Running",
            "podIP": self.address,
            "conditions": [{"type": one, "status": word} for one in ("Ready", "ContainersReady")],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"
        self._kubelet.client.drop()  # kube-apiserver closes connections that were idle
        reply = self._kubelet.client.patch(path, {"status": status})
        assert reply.status in (200, 404), reply


class Kubelet:
    """Runs all pods of a cluster, started with `with`."""

    def __init__(self, cluster: PhysicalCluster, folder: pathlib.Path) -> None:
        self.client, self.folder = cluster.client, folder
        folder.mkdir(parents=True)
        self.names = ClusterNames(folder / "hosts", self.client)
        self.pods: dict[str, RunningPod] = {}
        self._stopped: list[RunningPod] = []
        prefix = f"127.{random.randrange(1, 250)}.{random.randrange(1, 250)}"
        self._addresses = (f"{prefix}.{n}" for n in range(1, 255))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)
        for pod in self.pods.values():
            pod.stop()
        for pod in (*self.pods.values(), *self._stopped):
            pod.wait()

    def data(self, kind: str, namespace: str, name: str) -> dict[str, bytes] | None:
        """The content of a Secret or ConfigMap."""
        plural = "secrets" if kind == "secret" else "configmaps"
        found = self.client.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        if found.status != 200:
            return None
        data: dict[str, str] = found.json.get("data") or {}
        decode = base64.b64decode if kind == "secret" else str.encode
        return {key: decode(value) for key, value in data.items()}

    def of(self, namespace: str, workload: str) -> list[RunningPod]:
        """The pods of a Deployment or StatefulSet."""
        pattern = re.compile(rf"{namespace}/{workload}(-[a-z0-9]+-[a-z0-9]{{5}}|-\d+)")
        return [pod for key, pod in self.pods.items() if pattern.fullmatch(key)]

    def _run(self) -> None:
        while not self._stop.wait(_PROBE_SECONDS):
            items = self.client.get("/api/v1/pods").json["items"]
            live = {
                f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in items
            }
            for key, pod in live.items():
                if key not in self.pods:
                    self.pods[key] = RunningPod(self, pod, next(self._addresses))
            for key in self.pods.keys() - live.keys():
                self._stopped.append(self.pods.pop(key))
                self._stopped[-1].stop()
            for running in self.pods.values():
                running.write_volumes()


def write_together(folder: pathlib.Path, files: dict[str, Any]) -> None:
    """All files of a volume change at once, by a link, as kubelets do it."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    if data.exists() and {one.name: one.read_bytes() for one in data.iterdir()} == files:
        return
    for old in folder.glob("..2*"):
        if not data.exists() or old.name != data.readlink().name:
            shutil.rmtree(old)
    version = folder / f"..2{random.randrange(10**9)}"
    version.mkdir()
    for path, content in files.items():
        (version / path).write_bytes(content)
        if not (folder / path).is_symlink():
            (folder / path).symlink_to(f"..data/{path}")
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").rename(data)


@contextmanager
def resolving(names: ClusterNames) -> Iterator[None]:
    """The test itself uses the names of the cluster."""
    import socket

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", names.resolve(socket.getaddrinfo))
        yield
