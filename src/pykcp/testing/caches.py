"""A cache server of one's own for a test: it can be killed, emptied and started again."""

from __future__ import annotations

import base64
import json
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from typing import Any

import yaml

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.client import eventually
from pykcp.testing.server import environment

_DATA = ("cache.db", "cache.db-wal", "cache.db-shm")


class CacheProcess:
    """`cache-server` as a child process; it keeps its port and its certificates."""

    def __init__(self, folder: pathlib.Path, *flags: str) -> None:
        self.folder = folder
        self.kubeconfig = folder / "cache.kubeconfig"
        self._flags, self.port = flags, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "cache.log"
        folder.mkdir(parents=True, exist_ok=True)
        ca = create_ca("cache clients", time.time())
        pair = issue_client(ca, "shard", ("system:masters",), time.time())
        (folder / "ca.crt").write_bytes(ca.certificate)
        (folder / "client.pem").write_bytes(pair.certificate + pair.key)
        self._pair = pair

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def root(self) -> pathlib.Path:
        return self.folder / "cache"

    def start(self) -> CacheProcess:
        """Start and wait until it serves."""
        self._log.write_bytes(b"")
        command = [
            sys.executable, "-m", "pykcp.cli.cache_server", f"--root-directory={self.root}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            f"--client-ca-file={self.folder / 'ca.crt'}", *self._flags,
        ]  # fmt: skip
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
        self.port = int(eventually(self._served)[1])
        self.kubeconfig.write_text(yaml.safe_dump(self._config()))
        return self

    def _served(self) -> re.Match[str] | None:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return re.search(r"serving on .*:(\d+)", self.log())

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def wipe(self) -> None:
        """Remove its data; it must not run."""
        for name in _DATA:
            (self.root / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all its files, its certificate, too."""
        shutil.rmtree(self.root)

    def get(self, path: str, shard: str = "*", cluster: str = "*") -> Any:
        """What the cache holds below a path; None if there is no such object."""
        status, answer = self.request(f"/services/cache/shards/{shard}/clusters/{cluster}{path}")
        if status == 404:
            return None
        assert status == 200, answer
        return json.loads(answer)

    def names(self, path: str, shard: str = "*", cluster: str = "*") -> set[str]:
        items = self.get(path, shard, cluster)["items"]
        return {item["metadata"]["name"] for item in items}

    def request(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, bytes]:
        context = ssl.create_default_context(cadata=(self.root / "apiserver.crt").read_text())
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_cert_chain(self.folder / "client.pem")
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        try:
            sent = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _config(self) -> dict[str, Any]:
        def data(text: bytes) -> str:
            return base64.b64encode(text).decode()

        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "cache",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority": str(self.root / "apiserver.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": "cache",
                    "user": {
                        "client-certificate-data": data(self._pair.certificate),
                        "client-key-data": data(self._pair.key),
                    },
                }
            ],
            "contexts": [{"name": "cache", "context": {"cluster": "cache", "user": "cache"}}],
            "current-context": "cache",
        }


@contextmanager
def cache_server(folder: pathlib.Path, *flags: str) -> Iterator[CacheProcess]:
    """A running cache server; stopped at the end."""
    process = CacheProcess(folder, *flags).start()
    try:
        yield process
    finally:
        process.stop()
