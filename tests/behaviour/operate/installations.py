"""Installations that `kcp up` runs, each on loopback addresses of its own."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import yaml

from pykcp.programs.operator.variants import variant_manifests
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.exports import APIS, SCHEMAS, schema
from pykcp.testing.kubeconfig import Access, read_access
from pykcp.testing.server import environment

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"


class HostInstallation:
    """A root directory, and the commands of `kcp` on it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self._clients: list[TestClient] = []

    def command(self, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        command, *rest = words
        return subprocess.run(
            [sys.executable, "-m", "pykcp", command, f"--root-directory={self.root}", *rest],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=timeout,
            check=False,
        )

    def succeed(self, *words: str, timeout: float = 120.0) -> str:
        done = self.command(*words, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fail(self, *words: str) -> str:
        """What a command that must fail says."""
        done = self.command(*words)
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", "-o", "json").stdout)
        return found

    def workload(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(w for w in self.status()["workloads"] if w["name"] == name)
        return found

    def is_available(self, name: str) -> bool:
        """Of a workload, asked without a command: states that last a second are seen."""
        from pykcp.programs.operator.host.control import ask

        (status,) = ask(self.root, "status")
        return any(one["available"] for one in status["workloads"] if one["name"] == name)

    def pids(self) -> dict[str, list[int]]:
        return {
            one["name"]: [replica["pid"] for replica in one["replicas"]]
            for one in self.status()["workloads"]
        }

    @property
    def supervisor(self) -> int:
        from pykcp.programs.operator.host.control import ask

        return int(next(iter(ask(self.root, "ping")))["pid"])

    def client(self, name: str = "kcp-admin-frontproxy", context: str = "base") -> TestClient:
        path = self.root / "kubeconfigs" / f"{name}.kubeconfig"
        made = TestClient(self._access(path, context))
        self._clients.append(made)
        return made

    def _access(self, path: pathlib.Path, context: str) -> Access:
        """As `read_access`, with the client certificate that the kubeconfig contains."""
        (user,) = yaml.safe_load(path.read_text())["users"]
        files = []
        for part in ("client-certificate", "client-key"):
            file = self.root.parent / f"{path.stem}.{threading.get_ident()}.{part}"
            file.write_bytes(base64.b64decode(user["user"][f"{part}-data"]))
            files.append(str(file))
        return replace(read_access(path, context), certificate=(files[0], files[1]))

    def make_workspace(self, name: str, shard: str = "", cluster: str = "root") -> str:
        """A workspace that is ready; the name of its logical cluster."""
        spec: dict[str, Any] = {"type": {"name": "universal", "path": "root"}}
        if shard:
            spec["location"] = {"selector": {"matchLabels": {"name": shard}}}
        body = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": spec,
        }
        client = self.client()
        prefix = f"/clusters/{cluster}"
        made = client.post(f"{prefix}{WORKSPACES}", body)
        assert made.status == 201, made
        found = eventually(lambda: _ready(client.get(f"{prefix}{WORKSPACES}/{name}").json), 60)
        return str(found["spec"]["cluster"])

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.command("down")


def _ready(workspace: dict[str, Any]) -> dict[str, Any] | None:
    return workspace if workspace.get("status", {}).get("phase") == "Ready" else None


def install_version(kcp: HostInstallation, name: str) -> None:
    """A virtual environment of another version: here scripts that call this one's programs."""
    folder = kcp.root / "versions" / name / "bin"
    folder.mkdir(parents=True)
    for program, module in (
        ("kcp", "pykcp"),
        ("kcp-front-proxy", "pykcp.cli.kcp_front_proxy"),
        ("cache-server", "pykcp.cli.cache_server"),
        ("virtual-workspaces", "pykcp.cli.virtual_workspaces"),
    ):
        script = folder / program
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        script.chmod(0o755)


def own_addresses(text: str) -> str:
    """Manifests of a variant on loopback addresses that no other test uses."""
    prefix = f"127.{random.randrange(1, 250)}.{random.randrange(1, 250)}"
    return text.replace("127.0.0.", f"{prefix}.")


@contextmanager
def installation(
    directory: pathlib.Path, manifests: str, *flags: str
) -> Iterator[HostInstallation]:
    """`kcp up --detach` of manifests; stopped at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "manifests.yaml").write_text(manifests)
    made = HostInstallation(directory / ".kcp")
    try:
        made.succeed("up", f"--filename={directory / 'manifests.yaml'}", "--detach", *flags)
        yield made
    finally:
        made.close()


def variant(name: str) -> str:
    return own_addresses(variant_manifests(name))


@contextmanager
def host(root: pathlib.Path) -> Iterator[HostInstallation]:
    """A host that runs what is imported; stopped at the end."""
    made = HostInstallation(root)
    try:
        yield made
    finally:
        made.close()


def kill(pid: int) -> None:
    """It is gone when this returns: until then its port would still take connections."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 30)
    finally:
        os.close(process)


def pause(pid: int) -> None:
    """It neither runs nor closes its connections."""
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


class ClientThread:
    """A client that does one thing after the other in a thread, while something else happens."""

    def __init__(self, connect: Callable[[], TestClient]) -> None:
        self._connect = connect
        self.count = 0
        """What was done."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        client = self._connect()
        while not self._stop.is_set():
            client = self.step(client)
        client.close()

    def step(self, client: TestClient) -> TestClient:
        """Do one thing; the client for the next one."""
        raise NotImplementedError

    def more(self, number: int) -> None:
        """Until so many more were done."""
        wanted = self.count + number
        eventually(lambda: self.count > wanted, 120)


class Load(ClientThread):
    """Reads a path, with new connections now and then."""

    def __init__(self, connect: Callable[[], TestClient], path: str) -> None:
        super().__init__(connect)
        self._path = path
        self.failures: list[str] = []

    def step(self, client: TestClient) -> TestClient:
        try:
            reply = client.get(self._path)
            if reply.status != 200:
                self.failures.append(repr(reply))
            self.count += 1
            if self.count % 10 == 0:
                client.close()
                return self._connect()
        except OSError as error:
            self.failures.append(repr(error))
        return client


def bound_gears(admin: TestClient, provider: str, consumer: str, where: str) -> str:
    """A kind of one workspace, bound in another; the path of an object in the provider's view.

    `where`: the path of the provider's workspace.
    """
    made = schema("gears", "audit.example.com")
    at_provider, at_consumer = f"/clusters/{provider}", f"/clusters/{consumer}"
    assert admin.post(f"{at_provider}{SCHEMAS}", made).status == 201
    stored = {"name": "gears", "group": "audit.example.com", "schema": made["metadata"]["name"]}
    version = {"apiVersion": "apis.kcp.io/v1alpha2", "metadata": {"name": "gears"}}
    resources = [{**stored, "storage": {"crd": {}}}]
    export = {**version, "kind": "APIExport", "spec": {"resources": resources}}
    assert admin.post(f"{at_provider}{APIS}/apiexports", export).status == 201
    reference = {"export": {"path": where, "name": "gears"}}
    binding = {**version, "kind": "APIBinding", "spec": {"reference": reference}}
    assert admin.post(f"{at_consumer}{APIS}/apibindings", binding).status == 201
    view = f"/services/apiexport/{provider}/gears/clusters/{consumer}"
    return f"{view}/apis/audit.example.com/v1/namespaces/default/gears/audited-gear"
