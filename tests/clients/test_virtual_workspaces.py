"""Controllers that serve other workspaces through virtual ones, with stock clients."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.exports import APIS, Consumer, ExportProvider, claim
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.kubectl import write_kubeconfig
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import WORKSPACES

HERE = pathlib.Path(__file__).parent
ENVIRONMENT = HERE.parent.parent / ".cache" / "clients-venv"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
TENANCY = "tenancy.kcp.io/v1alpha1"

python_clients = pytest.mark.skipif(
    not (ENVIRONMENT / ".made-from").exists(),
    reason="the Python clients are not installed: scripts/install-clients",
)


@contextmanager
def running(
    shard: ServerProcess, folder: pathlib.Path, cluster: str, *command: str, **environment: str
) -> Iterator[Callable[[], str]]:
    """A controller at work in a workspace; called, it tells what it has said."""
    folder.mkdir()
    access = dataclasses.replace(
        read_access(shard.kubeconfig, "shard-base"), path=f"/clusters/{cluster}"
    )
    kubeconfig = write_kubeconfig(folder / "kubeconfig", access, folder / "ca.crt")
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
            stdout=output,
            stderr=output,
        )
    try:
        yield log.read_text
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def _serve_consumers(
    shard: ServerProcess, provider: ExportProvider, log: Callable[[], str]
) -> None:
    """Consumers come, use the API, go, and others stay and come."""
    first = provider.consumer()
    first.make(provider, "joe", hat="black")
    _has_status(provider, first, "joe", "black", log)
    second = provider.consumer()
    second.make(provider, "jack", hat="white")
    _has_status(provider, second, "jack", "white", log)
    path = provider.path(namespace="default")
    assert first.client.patch(f"{path}/joe", {"spec": {"hat": "brown"}}).status == 200
    _has_status(provider, first, "joe", "brown", log)
    assert first.client.delete(f"{APIS}/apibindings/{provider.export}").status == 200
    eventually(lambda: first.client.get(path).status == 404, 30)
    second.make(provider, "jane", hat="red")
    _has_status(provider, second, "jane", "red", log)
    third = provider.consumer()
    third.make(provider, "jim", hat="grey")
    _has_status(provider, third, "jim", "grey", log)


def _has_status(
    provider: ExportProvider, consumer: Consumer, name: str, hat: str, log: Callable[[], str]
) -> None:
    path = f"{provider.path(namespace='default')}/{name}"
    try:
        eventually(lambda: consumer.client.get(path).json.get("status") == {"hat": hat}, 30)
    except AssertionError:
        raise AssertionError(log()) from None


@python_clients
def test_a_provider_in_python(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    provider = ExportProvider(shard)
    program = (str(ENVIRONMENT / "bin" / "python"), str(HERE / "python" / "provider.py"))
    names = {"TEST_GROUP": provider.group, "TEST_EXPORT": provider.export}
    with running(shard, tmp_path / "provider", provider.cluster, *program, **names) as log:
        _serve_consumers(shard, provider, log)


@python_clients
def test_a_provider_with_kopf(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """kopf wants to find namespaces in discovery, so the export claims them; nobody grants it."""
    provider = ExportProvider(shard, claims=(claim("namespaces", "list"),))
    operator = str(HERE / "python" / "kopf_provider.py")
    command = (str(ENVIRONMENT / "bin" / "kopf"), "run", "-A", "--standalone", operator)
    names = {"TEST_GROUP": provider.group, "TEST_EXPORT": provider.export}
    with running(shard, tmp_path / "provider", provider.cluster, *command, **names) as log:
        _serve_consumers(shard, provider, log)


def test_a_provider_with_controller_runtime(
    shard: ServerProcess, tmp_path: pathlib.Path, go_clients: pathlib.Path
) -> None:
    provider = ExportProvider(shard)
    program = str(go_clients / "provider")
    names = {"TEST_GROUP": provider.group, "TEST_EXPORT": provider.export}
    with running(shard, tmp_path / "provider", provider.cluster, program, **names) as log:
        _serve_consumers(shard, provider, log)


@python_clients
def test_initializer_and_terminator_in_python(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    root = shard.client(cluster="root")
    body = {
        "apiVersion": TENANCY,
        "kind": "WorkspaceType",
        "metadata": {"name": "tended"},
        "spec": {
            "initializer": True,
            "terminator": True,
            "initializerPermissions": [
                {"verbs": ["create"], "apiGroups": [""], "resources": ["namespaces"]}
            ],
        },
    }
    assert root.post(TYPES, body).status == 201
    workspace = {
        "apiVersion": TENANCY,
        "kind": "Workspace",
        "metadata": {"name": "tended"},
        "spec": {"type": {"name": "tended", "path": "root"}},
    }
    assert root.post(WORKSPACES, workspace).status == 201
    assert _phase(root) in ("Scheduling", "Initializing")
    program = (str(ENVIRONMENT / "bin" / "python"), str(HERE / "python" / "lifecycle.py"))
    first = {"TEST_TYPE": "tended", "TEST_END": "initializing"}
    with running(shard, tmp_path / "initializing", "root", *program, **first):
        eventually(lambda: _phase(root) == "Ready", 30)
    cluster = root.get(f"{WORKSPACES}/tended").json["spec"]["cluster"]
    assert shard.client(cluster=cluster).get("/api/v1/namespaces/prepared").status == 200
    assert root.delete(f"{WORKSPACES}/tended").status in (200, 202)
    eventually(lambda: _phase(root) in ("Terminating", "Deleting"), 30)
    last = {"TEST_TYPE": "tended", "TEST_END": "terminating"}
    with running(shard, tmp_path / "terminating", "root", *program, **last):
        eventually(lambda: root.get(f"{WORKSPACES}/tended").status == 404, 30)


def _phase(root: TestClient) -> str:
    phase: str = (root.get(f"{WORKSPACES}/tended").json.get("status") or {}).get("phase") or ""
    return phase
