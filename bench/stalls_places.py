"""The servers that `stalls` measures: ours, and kube-apiserver on etcd, each in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from target import Target

from pykcp.testing.client import TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

USERS = ("attacker", "limited", "innocent", "storm0", "storm1", "storm2", "storm3")
RBAC = "rbac.authorization.k8s.io"
_MEMORY = 4 << 30
"""What a server may take, so that an attack does not take the machine."""


def token_lines() -> str:
    lines = [f"{user}-token,{user},{user}" for user in USERS]
    return "\n".join([*lines, 'admin-token,admin,admin,"system:masters"']) + "\n"


def admin_binding(user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"admin-{user}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


@dataclass(slots=True)
class Room:
    """Where one tenant works: a workspace of ours, a namespace of the peer."""

    prefix: str
    namespace: str
    user: str

    @property
    def token(self) -> str:
        return f"{self.user}-token"


@dataclass(slots=True)
class Place:
    """A running server with rooms for tenants."""

    name: str
    folder: pathlib.Path
    is_peer: bool
    host: str = "127.0.0.1"
    port: int = 0
    pids: tuple[int, ...] = ()
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    _ours: ServerProcess | None = None
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    flags: Sequence[str] = ()
    binary: str = ""

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tokens.csv").write_text(token_lines())
        if self.is_peer:
            self._start_peer()
        else:
            self._start_ours()

    def restart(self) -> None:
        """A fresh one: what went before must not disturb what is measured next."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.start()

    def stop(self) -> None:
        if self._ours is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._ours.stop(5)
            self._ours.kill()
            self._ours = None
        for child in reversed(self._children):
            child.kill()
            child.wait()
        self._children.clear()

    def _start_ours(self) -> None:
        flags = (f"--token-auth-file={self.folder / 'tokens.csv'}", *self.flags)
        self._ours = ServerProcess(self.folder / ".kcp", flags).start()
        resource.prlimit(self._ours.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        access = read_access(self._ours.kubeconfig, "shard-base")
        self.host, self.port, self.pids = access.host, access.port, (self._ours.pid,)
        self.context = ssl.create_default_context(cadata=access.ca)

    def _start_peer(self) -> None:
        etcd_port, peer_port, self.port = (free_port() for _ in range(3))
        self._spawn(
            [
                "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
                f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                "--log-level=error",
            ],
            "etcd.log",
        )
        key = self.folder / "sa.key"
        subprocess.run(
            ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)],
            check=True,
        )
        self._spawn(
            [
                self.binary,
                f"--etcd-servers=http://127.0.0.1:{etcd_port}",
                f"--secure-port={self.port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self.folder / 'certs'}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://peer",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--disable-admission-plugins=ServiceAccount",
            ],
            "kube-apiserver.log",
        )
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.pids = tuple(child.pid for child in self._children)
        deadline = time.monotonic() + 90
        while self.ask("GET", "/readyz")[0] != 200:
            assert time.monotonic() < deadline, f"the peer did not start: see {self.folder}"
            time.sleep(0.3)

    def _spawn(self, command: list[str], log: str) -> None:
        with (self.folder / log).open("ab") as file:
            self._children.append(
                subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ})
            )

    # -- as administrator ----------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        seconds: float = 20.0,
        content_type: str = "application/json",
    ) -> tuple[int, bytes]:
        """One request of the administrator; 0 if there is no answer."""
        request = urllib.request.Request(
            f"https://{self.host}:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self._admin()}", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self.context) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def _admin(self) -> str:
        if self._ours is None:
            return "admin-token"
        return read_access(self._ours.kubeconfig, "shard-base").token

    def make_room(self, name: str, user: str) -> Room:
        """A workspace, or a namespace, in which a user may do everything."""
        if not self.is_peer:
            root = self.root_client()
            if root.get(f"/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}").status == 404:
                make_workspace(root, name)
            prefix, namespace = f"/clusters/root:{name}", "default"
        else:
            self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            prefix, namespace = "", name
        bindings = f"{prefix}/apis/{RBAC}/v1/clusterrolebindings"
        status, answer = self.ask("POST", bindings, admin_binding(user))
        assert status in (201, 409), answer
        return Room(prefix, namespace, user)

    def root_client(self) -> TestClient:
        """The administrator in the workspace `root`, of ours."""
        assert self._ours is not None
        return self._ours.client(cluster="root")

    def drop_room(self, name: str) -> None:
        """Delete what a tenant has made, without waiting for it."""
        if not self.is_peer:
            self.ask("DELETE", f"/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}")
        else:
            for path in _PEER_KINDS:
                self.ask("DELETE", f"{path}?labelSelector=stalls")
            self.ask("DELETE", f"/api/v1/namespaces/{name}/configmaps")
            self.ask("DELETE", f"/api/v1/namespaces/{name}")

    def are_gone(self, names: Sequence[str]) -> bool:
        """Whether deleted rooms of ours are gone; the peer has no controller for that."""
        path = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces"
        return self.is_peer or all(self.ask("GET", f"{path}/{name}")[0] == 404 for name in names)

    def target(self, room: Room) -> Target:
        context = self.client_context()
        context.set_alpn_protocols(["h2"])
        return Target(self.name, self.host, self.port, room.prefix, room.token, context, self.pids)

    def client_context(self) -> ssl.SSLContext:
        """A context of one's own: ALPN is chosen in it."""
        if self._ours is not None:
            return ssl.create_default_context(
                cadata=read_access(self._ours.kubeconfig, "shard-base").ca
            )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def stall_lines(self) -> list[str]:
        """What the server has logged about its event loop."""
        log = self.log_path
        lines = log.read_text(errors="replace").splitlines() if log is not None else []
        return [line for line in lines if "event loop late" in line]

    def tracebacks(self) -> list[str]:
        """What the server has logged with a traceback: the line before it, its end, and how often."""
        log = self.log_path
        lines = log.read_text(errors="replace").splitlines() if log is not None else []
        found: Counter[str] = Counter()
        for at, line in enumerate(lines):
            if line.startswith("Traceback"):
                rest = (n for n in range(at + 1, len(lines)) if not lines[n].startswith(" "))
                end = next(rest, len(lines) - 1)
                found[
                    " … ".join((lines[at - 1][:200], lines[end - 2].strip(), lines[end][:200]))
                ] += 1
        return [f"{count}x {text}" for text, count in found.most_common(20)]

    @property
    def log_path(self) -> pathlib.Path | None:
        return self._ours.log_path if self._ours is not None else None

    def is_alive(self, seconds: float = 5.0) -> bool:
        return self.ask("GET", "/livez", seconds=seconds)[0] == 200

    def all_pids(self) -> tuple[int, ...]:
        """With worker processes that it has started."""
        return tuple(pid for known in self.pids for pid in (known, *_children_of(known)))

    def interrupt(self) -> None:
        """For a server that no longer answers."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


_PEER_KINDS = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    f"/apis/{RBAC}/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *_children_of(int(child))]
    return found


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
