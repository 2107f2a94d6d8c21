"""Physical clusters for tests: real API servers in processes of their own.

`own_cluster` is quick: `kcp start --kubernetes-cluster`, with the kinds of Kubernetes and without
their controllers. `real_cluster` is kube-apiserver with etcd and kube-controller-manager, where
they exist on this machine.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import yaml

from pykcp.auth.certificates import create_ca, issue_client, issue_serving
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access, read_access
from pykcp.testing.server import ServerProcess
from pykcp.testing.sharded import free_ports
from pykcp.types import Object

CLUSTER = "physical"


@dataclass(frozen=True, slots=True)
class PhysicalCluster:
    """An API server that runs workloads, or seems to."""

    name: str
    kubeconfig: pathlib.Path
    """Of an administrator, with one context and everything inline."""
    client: TestClient
    process: ServerProcess | None = None
    """Of a server of this project: it can be killed and started again."""

    @property
    def port(self) -> int:
        return self.client.access.port

    def kubeconfig_text(self, port: int = 0, authority: str = "") -> str:
        """The same kubeconfig by way of a proxy."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        if port:
            cluster["server"] = f"https://127.0.0.1:{port}"
        if authority:
            cluster["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
        return yaml.safe_dump(config)


def write_kubeconfig(path: pathlib.Path, access: Access) -> pathlib.Path:
    """A kubeconfig with one context."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "cluster",
                "cluster": {
                    "server": f"https://{access.host}:{access.port}{access.path}",
                    "certificate-authority-data": base64.b64encode(access.ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": "user", "user": _credentials(access)}],
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "cluster",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def _credentials(access: Access) -> Object:
    if access.certificate is None:
        return {"token": access.token}
    certificate, key = access.certificate
    return {"client-certificate": certificate, "client-key": key}


@contextmanager
def own_cluster(name: str, folder: pathlib.Path, *flags: str) -> Iterator[PhysicalCluster]:
    """A server of this project that looks like a Kubernetes cluster."""
    process = ServerProcess(folder / name, (f"--kubernetes-cluster={CLUSTER}", *flags)).start()
    try:
        access = read_access(process.kubeconfig, "shard-base")
        kubeconfig = write_kubeconfig(folder / f"{name}.kubeconfig", access)
        client = TestClient(access)
        yield PhysicalCluster(name, kubeconfig, client, process)
        client.close()
    finally:
        process.stop()


def missing_for_real_cluster() -> str:
    """What this machine lacks for `real_cluster`; empty if nothing."""
    needed = {"kube-apiserver": apiserver(), "etcd": etcd(), "kube-controller-manager": manager()}
    return ", ".join(name for name, path in needed.items() if path is None)


def apiserver() -> str | None:
    return program("kube-apiserver", "PYKCP_KUBE_APISERVER")


def etcd() -> str | None:
    return program("etcd", "PYKCP_ETCD")


def manager() -> str | None:
    return program("kube-controller-manager", "PYKCP_KUBE_CONTROLLER_MANAGER")


def program(name: str, variable: str) -> str | None:
    """A program that an environment variable names, or that is on the path."""
    return os.environ.get(variable) or shutil.which(name)


@contextmanager
def real_cluster(name: str, folder: pathlib.Path) -> Iterator[PhysicalCluster]:
    """kube-apiserver, etcd and kube-controller-manager."""
    home = folder / name
    home.mkdir()
    store, peer, port = free_ports(3)
    files = _write_files(home)
    token = "test-" + os.urandom(8).hex()
    (home / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    authority = (home / "ca.crt").read_text()
    access = Access("127.0.0.1", port, "", authority, token)
    kubeconfig = write_kubeconfig(folder / f"{name}.kubeconfig", access)
    client = TestClient(access)
    with ExitStack() as stack:
        stack.enter_context(_running(home, "etcd", _etcd_words(home, store, peer)))
        stack.enter_context(_running(home, "kube-apiserver", _apiserver_words(files, store, port)))
        eventually(lambda: _is_ready(client), 180)  # on a busy machine
        words = _manager_words(home, kubeconfig)
        stack.enter_context(_running(home, "kube-controller-manager", words))
        stack.callback(client.close)
        yield PhysicalCluster(name, kubeconfig, client)


def _is_ready(client: TestClient) -> bool:
    try:
        return client.get("/readyz").status == 200
    except OSError:
        return False


def _write_files(home: pathlib.Path) -> pathlib.Path:
    now = time.time()
    authority = create_ca("test-cluster", now)
    serving = issue_serving(authority, ["127.0.0.1", "localhost", "10.0.0.1"], now)
    account = issue_client(authority, "service-accounts", (), now)
    for name, pair in (("ca", authority), ("serving", serving), ("account", account)):
        (home / f"{name}.crt").write_bytes(pair.certificate)
        (home / f"{name}.key").write_bytes(pair.key)
    return home


def _etcd_words(home: pathlib.Path, store: int, peer: int) -> list[str]:
    return [
        str(etcd()),
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{store}",
        f"--advertise-client-urls=http://127.0.0.1:{store}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver_words(home: pathlib.Path, store: int, port: int) -> list[str]:
    return [
        str(apiserver()),
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={home / 'serving.crt'}",
        f"--tls-private-key-file={home / 'serving.key'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={home / 'account.key'}",
        f"--service-account-signing-key-file={home / 'account.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]


def _manager_words(home: pathlib.Path, kubeconfig: pathlib.Path) -> list[str]:
    return [
        str(manager()),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={home / 'account.key'}",
        f"--root-ca-file={home / 'ca.crt'}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        "--allocate-node-cidrs=false",
    ]


@contextmanager
def _running(home: pathlib.Path, name: str, words: list[str]) -> Iterator[None]:
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=home)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_node(client: TestClient, name: str = "node-1", cpu: str = "8") -> None:
    """A node on which pods may be placed."""
    capacity = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    made = client.post("/api/v1/nodes", node)
    assert made.status in (201, 409), made
    status = {
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
    }
    patched = client.patch(f"/api/v1/nodes/{name}/status", json.dumps(status))
    assert patched.status == 200, patched
