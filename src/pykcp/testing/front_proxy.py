"""A front-proxy before a shard, as processes for tests; its users have certificates."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPSConnection
from typing import Any

import yaml

from pykcp.auth.certificates import KeyPair, create_ca, issue_client, issue_serving
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import ServerProcess, environment

PROXY_USER = "kcp-front-proxy"


class ProxyFiles:
    """Authorities, certificates and configuration of an installation, in a directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, now = root, time.time()
        self._users = create_ca("test-users", now)
        self._proxies = create_ca("test-proxies", now)
        self._servers = create_ca("test-servers", now)
        self.client_ca = self._write("client-ca.crt", self._users.certificate)
        self.proxy_ca = self._write("requestheader-ca.crt", self._proxies.certificate)
        self.serving_ca = self._write("serving-ca.crt", self._servers.certificate)
        self.serving = self._pair(
            "serving", issue_serving(self._servers, ["localhost", "127.0.0.1"], now)
        )
        self.proxy = self._pair("proxy", issue_client(self._proxies, PROXY_USER, (), now))

    def _write(self, name: str, data: bytes) -> pathlib.Path:
        path = self.root / name
        path.write_bytes(data)
        return path

    def _pair(self, name: str, pair: KeyPair) -> pathlib.Path:
        """One file with a certificate and its key."""
        return self._write(f"{name}.pem", pair.certificate + pair.key)

    def user(self, name: str, groups: Sequence[str] = ()) -> pathlib.Path:
        """The certificate of a user."""
        made = issue_client(self._users, name, groups, time.time())
        return self._pair(f"user-{name}-{len(groups)}", made)

    def shard_flags(self) -> list[str]:
        """Of shards that believe the proxy and know the same users."""
        return [
            f"--client-ca-file={self.client_ca}",
            f"--requestheader-client-ca-file={self.proxy_ca}",
            f"--tls-cert-file={self.serving}",
            f"--tls-private-key-file={self.serving}",
        ]

    def mapping(self, path: str, backend: str, **more: str) -> dict[str, str]:
        """An entry of the mapping file."""
        return {
            "path": path,
            "backend": backend,
            "backend_server_ca": str(self.serving_ca),
            "proxy_client_cert": str(self.proxy),
            "proxy_client_key": str(self.proxy),
            **more,
        }

    def shards_kubeconfig(self) -> pathlib.Path:
        """Without a server, as kcp's own test set has it."""
        admin = str(self.user("shard-admin", ["system:masters"]))
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "base", "cluster": {"certificate-authority": str(self.serving_ca)}}
            ],
            "users": [
                {"name": "admin", "user": {"client-certificate": admin, "client-key": admin}}
            ],
            "contexts": [{"name": "base", "context": {"cluster": "base", "user": "admin"}}],
            "current-context": "base",
        }
        return self._write("shards.kubeconfig", yaml.safe_dump(config).encode())

    def root_kubeconfig(self, shard: ServerProcess) -> pathlib.Path:
        """The administrator of a shard, in the context of all logical clusters."""
        config: dict[str, Any] = yaml.safe_load(shard.kubeconfig.read_text())
        config["current-context"] = "shard-base"
        return self._write("root.kubeconfig", yaml.safe_dump(config).encode())


class FrontProxyProcess:
    """`kcp-front-proxy` as a child process; it can be killed and started again."""

    def __init__(self, files: ProxyFiles, name: str, words: Sequence[str]) -> None:
        self.files = files
        self.directory = files.root / name
        self.log_path = files.root / f"{name}.log"
        self._words = list(words)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._opened: list[HTTPSConnection] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> FrontProxyProcess:
        """Start, and wait until it is ready."""
        files = self.files
        command = [
            sys.executable, "-m", "pykcp.cli.kcp_front_proxy",
            f"--root-directory={self.directory}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", f"--tls-cert-file={files.serving}",
            f"--tls-private-key-file={files.serving}", f"--client-ca-file={files.client_ca}",
            *self._words,
        ]  # fmt: skip
        before = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
        self.port = int(eventually(lambda: self._announced(before)))
        client = self.client()
        eventually(lambda: client.get("/readyz").status == 200)
        return self

    def _announced(self, before: int) -> str:
        assert self._process is not None
        assert self._process.poll() is None, self.log_path.read_text()
        text = self.log_path.read_text()[before:]
        _, _, rest = text.partition("serving on 127.0.0.1:")
        return rest.partition("\n")[0].strip().rstrip('"') if "\n" in rest else ""

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        for connection in self._opened:
            connection.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(20) == 0, self.log_path.read_text()[-3000:]

    def client(
        self, user: str = "", groups: Sequence[str] = (), cluster: str = "", token: str = ""
    ) -> TestClient:
        """A client with a certificate for a user, or with a token, or with neither."""
        ca = self.files.serving_ca.read_text()
        file = str(self.files.user(user, groups)) if user else ""
        access = Access("127.0.0.1", self.port, "", ca, token, (file, file) if file else None)
        return TestClient(access, cluster, self._opened)

    def admin(self, cluster: str = "") -> TestClient:
        """A member of kcp's administrators."""
        return self.client("kcp-admin", ["system:kcp:admin"], cluster)


@contextmanager
def proxied_shard(*flags: str, proxy_flags: Sequence[str] = ()) -> Iterator[FrontProxyProcess]:
    """A root shard with a front-proxy before it."""
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        shard = ServerProcess(files.root / "root", [*files.shard_flags(), *flags]).start()
        try:
            with front_proxy(files, shard, *proxy_flags) as proxy:
                yield proxy
        finally:
            shard.stop()


@contextmanager
def front_proxy(
    files: ProxyFiles,
    root: ServerProcess,
    *flags: str,
    name: str = "front-proxy",
    mappings: Sequence[dict[str, str]] = (),
) -> Iterator[FrontProxyProcess]:
    """A front-proxy before shards, of which `root` has the Shard objects."""
    url = f"https://127.0.0.1:{root.port}"
    written = files.root / f"{name}-mapping.yaml"
    entries = [*mappings, files.mapping("/clusters/", url), files.mapping("/services/", url)]
    written.write_text(yaml.safe_dump(entries))
    process = FrontProxyProcess(
        files,
        name,
        [
            f"--mapping-file={written}",
            f"--root-kubeconfig={files.root_kubeconfig(root)}",
            f"--shards-kubeconfig={files.shards_kubeconfig()}",
            *flags,
        ],
    )
    process.start()
    try:
        yield process
    finally:
        process.stop()
