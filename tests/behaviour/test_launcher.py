"""The command lines that kcp's own launcher of test servers gives to the programs."""

from __future__ import annotations

import pathlib
import socket
import ssl
import time
from collections.abc import Sequence
from http.client import HTTPSConnection

import pytest
import yaml

from pykcp.auth.certificates import KeyPair, create_ca, issue_client, issue_serving
from pykcp.testing.programs import serving

HOST = "127.0.0.1"
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"
AUDIT = [
    "--audit-log-mode=batch", "--audit-log-batch-max-wait=1s",
    "--audit-log-batch-max-size=1000", "--audit-log-batch-buffer-size=10000",
    "--audit-log-batch-throttle-burst=15", "--audit-log-batch-throttle-enable=true",
    "--audit-log-batch-throttle-qps=10",
]  # fmt: skip


def free_port() -> int:
    with socket.create_server((HOST, 0)) as taken:
        return int(taken.getsockname()[1])


class Workshop:
    """The directory that the launcher prepares: authorities, certificates, kubeconfigs."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self.now = directory, time.time()
        self.authorities: dict[str, KeyPair] = {}
        for name in ("client-ca", "requestheader-ca", "serving-ca", "service-account"):
            made = create_ca(name, self.now, algorithm="rsa")
            self.authorities[name] = made
            self.write(f".kcp/{name}", made)
        self.client(".kcp/mounts-proxy", "kcp-mounts-proxy", "requestheader-ca")
        for name in ("logical-cluster-admin", "external-logical-cluster-admin"):
            self.kubeconfig(f".kcp/{name}.kubeconfig", 6443, f".kcp/{name}")

    def path(self, name: str) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    def write(self, name: str, pair: KeyPair) -> None:
        pathlib.Path(self.path(f"{name}.crt")).write_bytes(pair.certificate)
        pathlib.Path(self.path(f"{name}.key")).write_bytes(pair.key)

    def client(self, name: str, user: str, authority: str, groups: Sequence[str] = ()) -> None:
        self.write(name, issue_client(self.authorities[authority], user, groups, self.now))

    def served(self, name: str) -> None:
        self.write(
            name, issue_serving(self.authorities["serving-ca"], ["localhost", HOST], self.now)
        )

    def text(self, name: str, content: str) -> str:
        pathlib.Path(self.path(name)).write_text(content)
        return self.path(name)

    def kubeconfig(self, name: str, port: int, client: str) -> str:
        self.client(client, "admin", "client-ca", ("system:masters",))
        cluster = {
            "server": f"https://localhost:{port}",
            "certificate-authority": self.path(".kcp/serving-ca.crt"),
        }
        user = {
            "client-certificate": self.path(f"{client}.crt"),
            "client-key": self.path(f"{client}.key"),
        }
        content = {
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        return self.text(name, yaml.safe_dump(content))

    def shard(self, number: int, port: int, *, own_views: bool) -> list[str]:
        """`kcp start`, number 0 is the root shard."""
        folder, name = f".kcp-{number}", "root" if number == 0 else f"shard-{number}"
        self.kubeconfig(".kcp-cache/cache.kubeconfig", free_port(), ".kcp-cache/cache-client")
        self.served(f"{folder}/apiserver")
        self.client(f"{folder}/shard-client-cert", "kcp-shard", "client-ca", ("system:masters",))
        root = [f"--root-shard-kubeconfig-file={self.path('.kcp-0/admin.kubeconfig')}"]
        views = [f"--shard-virtual-workspace-url=https://{HOST}:{7444 + number}"]
        return [
            "start",
            f"--shard-name={name}",
            f"--embedded-etcd-client-port={2379 + 2 * number}",
            f"--embedded-etcd-peer-port={2380 + 2 * number}",
            *(root if number else []),
            f"--root-directory={self.path(folder)}",
            f"--client-ca-file={self.path('.kcp/client-ca.crt')}",
            f"--requestheader-client-ca-file={self.path('.kcp/requestheader-ca.crt')}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--service-account-key-file={self.path('.kcp/service-account.crt')}",
            f"--service-account-private-key-file={self.path('.kcp/service-account.key')}",
            f"--service-account-signing-key-file={self.path('.kcp/service-account.key')}",
            "--audit-log-path", self.path(f"{folder}/audit.log"),
            f"--shard-external-url=https://{HOST}:6443",
            f"--tls-cert-file={self.path(f'{folder}/apiserver.crt')}",
            f"--tls-private-key-file={self.path(f'{folder}/apiserver.key')}",
            f"--secure-port={port}",
            f"--logical-cluster-admin-kubeconfig={self.path('.kcp/logical-cluster-admin.kubeconfig')}",
            f"--external-logical-cluster-admin-kubeconfig={self.path('.kcp/external-logical-cluster-admin.kubeconfig')}",
            f"--shard-client-cert-file={self.path(f'{folder}/shard-client-cert.crt')}",
            f"--shard-client-key-file={self.path(f'{folder}/shard-client-cert.key')}",
            f"--shard-virtual-workspace-ca-file={self.path('.kcp/serving-ca.crt')}",
            f"--mount-proxy-client-cert-file={self.path('.kcp/mounts-proxy.crt')}",
            f"--mount-proxy-client-key-file={self.path('.kcp/mounts-proxy.key')}",
            f"--cache-kubeconfig={self.path('.kcp-cache/cache.kubeconfig')}",
            *([] if own_views else views),
            "--root-directory", self.path(folder),
            "--bind-address=127.0.0.1",
            "--token-auth-file", self.text(f"{folder}/auth-tokens.csv", "token,user,1\n"),
            "--audit-log-maxsize", "1024",
            *AUDIT,
            "--audit-policy-file", self.text(f"{folder}/audit-policy.yaml", POLICY),
            *([] if own_views else ["--run-virtual-workspaces=false"]),
        ]  # fmt: skip

    def cache(self, port: int) -> list[str]:
        return [
            f"--root-directory={self.path('.kcp-cache')}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            "--synthetic-delay=0s",
            f"--client-ca-file={self.path('.kcp/client-ca.crt')}",
            "--embedded-etcd-client-port=8010",
            "--embedded-etcd-peer-port=8011",
        ]

    def virtual_workspaces(self, port: int, shard_port: int) -> list[str]:
        folder = ".kcp-virtual-workspaces-0"
        self.served(f"{folder}/apiserver")
        shard = self.kubeconfig(f"{folder}/shard.kubeconfig", shard_port, f"{folder}/shard-client")
        return [
            f"--kubeconfig={shard}",
            f"--external-logical-cluster-admin-kubeconfig={shard}",
            f"--cache-kubeconfig={self.path('.kcp-cache/cache.kubeconfig')}",
            f"--authentication-kubeconfig={self.path('.kcp-0/admin.kubeconfig')}",
            f"--client-ca-file={self.path('.kcp/client-ca.crt')}",
            f"--tls-private-key-file={self.path(f'{folder}/apiserver.key')}",
            f"--tls-cert-file={self.path(f'{folder}/apiserver.crt')}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            "--audit-log-maxsize=1024",
            *AUDIT,
            f"--audit-policy-file={self.text(f'{folder}/audit-policy.yaml', POLICY)}",
            "--authentication-skip-lookup",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            f"--requestheader-client-ca-file={self.path('.kcp/requestheader-ca.crt')}",
            "--v=4",
            "--audit-log-path", self.path(f"{folder}/audit.log"),
        ]  # fmt: skip

    def is_ready(self, port: int, ca: str = ".kcp/serving-ca.crt") -> bool:
        context = ssl.create_default_context(cafile=self.path(ca))
        connection = HTTPSConnection("localhost", port, timeout=20, context=context)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def warnings(self, log: str) -> set[str]:
        """The flags that a program warned of."""
        lines = pathlib.Path(self.path(log)).read_text().splitlines()
        return {line.split("] ")[1].split(" ")[0] for line in lines if "is accepted " in line}


@pytest.fixture
def workshop(tmp_path: pathlib.Path) -> Workshop:
    return Workshop(tmp_path)


def test_a_root_shard_and_its_virtual_workspaces(workshop: Workshop) -> None:
    """Both start with the launcher's flags, and say which of them have no effect."""
    port, views = free_port(), free_port()
    words = workshop.shard(0, port, own_views=False)
    with serving("pykcp", pathlib.Path(workshop.path("shard.log")), *words):
        assert workshop.is_ready(port)
        words = workshop.virtual_workspaces(views, port)
        log = pathlib.Path(workshop.path("views.log"))
        with serving("pykcp.cli.virtual_workspaces", log, *words):
            assert workshop.is_ready(views)
    assert workshop.warnings("shard.log") == {
        "--embedded-etcd-client-port",
        "--embedded-etcd-peer-port",
        "--external-logical-cluster-admin-kubeconfig",
    }
    assert "--authentication-skip-lookup" in workshop.warnings("views.log")
    assert "--audit-policy-file" in workshop.warnings("views.log")


def test_a_further_shard(workshop: Workshop) -> None:
    """It starts while root is away: all of its flags have an effect but those of etcd."""
    port = free_port()
    workshop.client(".kcp-0/x", "x", "client-ca", ())  # makes the folder
    workshop.kubeconfig(".kcp-0/admin.kubeconfig", free_port(), ".kcp-0/admin")
    words = workshop.shard(1, port, own_views=True)
    with serving("pykcp", pathlib.Path(workshop.path("shard.log")), *words):
        assert workshop.is_ready(port)
    assert "--root-shard-kubeconfig-file" not in workshop.warnings("shard.log")


def test_a_cache_server(workshop: Workshop) -> None:
    """It makes a certificate for localhost in its directory, under the name that is waited for."""
    port = free_port()
    log = pathlib.Path(workshop.path("cache.log"))
    with serving("pykcp.cli.cache_server", log, *workshop.cache(port)):
        assert workshop.is_ready(port, ".kcp-cache/apiserver.crt")
