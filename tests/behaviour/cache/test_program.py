"""`cache-server`: the same server as a program of its own, for those with the right certificate."""

from __future__ import annotations

import json
import pathlib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from http.client import HTTPSConnection
from typing import Any

import pytest

from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.testing.programs import serving
from pykcp.testing.server import environment

EXPORTS = "/shards/amber/clusters/acme/apis/apis.kcp.io/v1alpha1/apiexports"


def program(folder: pathlib.Path, *flags: str) -> AbstractContextManager[int]:
    """A running program; its port."""
    return serving(
        "pykcp.cli.cache_server", folder / "cache.log", f"--root-directory={folder / 'cache'}",
        "--bind-address=127.0.0.1", "--secure-port=0", *flags,
    )  # fmt: skip


class Server:
    def __init__(self, port: int, folder: pathlib.Path, ca: KeyPair) -> None:
        self._port, self._folder, self._ca = port, folder, ca

    def request(
        self,
        path: str,
        groups: Sequence[str] | None = ("system:masters",),
        body: Any = None,
        ca: KeyPair | None = None,
    ) -> tuple[int, bytes]:
        """One request with a certificate for these groups; None: with none at all."""
        certificate = self._folder / "cache" / "apiserver.crt"
        context = ssl.create_default_context(cadata=certificate.read_text())
        if groups is not None:
            pair = issue_client(ca or self._ca, "somebody", groups, time.time())
            file = self._folder / "client.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        connection = HTTPSConnection("127.0.0.1", self._port, timeout=20, context=context)
        try:
            sent = {"Content-Type": "application/json"}
            method = "GET" if body is None else "POST"
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def ca() -> KeyPair:
    return create_ca("clients", time.time())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, ca: KeyPair) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cache")
    (folder / "ca.crt").write_bytes(ca.certificate)
    with program(folder, f"--client-ca-file={folder / 'ca.crt'}") as port:
        yield Server(port, folder, ca)


def export(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIExport",
        "metadata": {"name": name},
        "star": "sun",
    }


@pytest.mark.parametrize("prefix", ["", "/services/cache"])
def test_masters_write_and_read(alone: Server, prefix: str) -> None:
    name = f"earth{len(prefix)}"
    status, body = alone.request(f"{prefix}{EXPORTS}", body=export(name))
    assert status == 201, body
    made = json.loads(body)
    assert made["star"] == "sun"
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": "acme", "kcp.io/shard": "amber"}
    assert alone.request(f"{prefix}{EXPORTS}/{name}")[0] == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_is_open(alone: Server, path: str) -> None:
    assert alone.request(path, None) == (200, b"ok")


def test_others_are_refused(alone: Server) -> None:
    assert alone.request(EXPORTS, None)[0] == 403
    assert alone.request(EXPORTS, ["system:authenticated"])[0] == 403
    assert alone.request("/metrics", ["system:authenticated"])[0] == 403
    strangers = create_ca("strangers", time.time())
    assert alone.request(EXPORTS, ca=strangers)[0] == 401


def test_metrics_are_not_of_a_shard(alone: Server) -> None:
    assert alone.request("/metrics")[0] == 200
    for path in (
        "/services/cache/shards/amber/metrics",
        "/services/cache/shards/amber/clusters/root/metrics",
    ):
        assert alone.request(path)[0] == 501


def test_objects_outlive_the_process(tmp_path: pathlib.Path, ca: KeyPair) -> None:
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    flags = (f"--client-ca-file={tmp_path / 'ca.crt'}", "--synthetic-delay=50ms")
    with program(tmp_path, *flags) as port:
        before = time.monotonic()
        assert Server(port, tmp_path, ca).request(EXPORTS, body=export("kept"))[0] == 201
        assert time.monotonic() - before >= 0.05
    with program(tmp_path, *flags) as port:
        assert Server(port, tmp_path, ca).request(f"{EXPORTS}/kept")[0] == 200


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--nonsense"], "unknown flag"),
        (["--bind-address=x"], "is not an IP address"),
        (["--client-ca-file=/nowhere"], "no such file: /nowhere"),
        (["start"], 'unknown command "start"'),
    ],
)
def test_bad_command_lines(flags: list[str], expected: str) -> None:
    command = [sys.executable, "-m", "pykcp.cli.cache_server", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=30, check=False
    )
    assert done.returncode == 1
    assert expected in done.stderr
