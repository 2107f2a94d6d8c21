"""Workloads made by hand for the tests of drivers: a cache server with a certificate of its own."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.programs.operator.compiled import (
    CACHE_SERVER,
    PROXY_PROBES,
    CompiledFile,
    CompiledWorkload,
    Listen,
    WorkloadOwner,
)
from pykcp.programs.operator.drivers.process.ports import free_port

MakeWorkload = Callable[..., CompiledWorkload]


@pytest.fixture
def make_workload(tmp_path: pathlib.Path) -> MakeWorkload:
    """Makes a cache server that keeps nothing; `arguments` are added to its own."""
    authority = create_ca("test-ca", time.time())
    pair = issue_serving(authority, ["127.0.0.1", "localhost"], time.time())
    port = free_port()

    def make(*arguments: str, name: str = "c-cache-server", **changes: object) -> CompiledWorkload:
        files = tmp_path / "files" / name
        directory = tmp_path / "data" / name
        values: dict[str, object] = {
            "program": "cache-server",
            "arguments": (
                f"--root-directory={directory}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={files}/tls.crt",
                f"--tls-private-key-file={files}/tls.key",
                *arguments,
            ),
            "files": (
                CompiledFile(f"{files}/tls.crt", pair.certificate),
                CompiledFile(f"{files}/tls.key", pair.key),
                CompiledFile(f"{files}/ca.crt", authority.certificate),
            ),
            "data_directory": str(directory),
            "is_single": True,
            "probes": PROXY_PROBES,
            "listen": Listen("127.0.0.1", port, authority=f"{files}/ca.crt"),
            **changes,
        }
        owner = WorkloadOwner("CacheServer", "c")
        return CompiledWorkload(name, "kcp", CACHE_SERVER, owner, **values)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_shared(make_workload: MakeWorkload, tmp_path: pathlib.Path) -> MakeWorkload:
    """Makes two virtual-workspace servers, which keep nothing and share a port."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(_UNREACHABLE))

    def make(*arguments: str) -> CompiledWorkload:
        made = make_workload(
            program="virtual-workspaces",
            is_single=False,
            replicas=2,
            data_directory="",
            probes=PROXY_PROBES,
        )
        serving = made.arguments[1:]
        return replace(made, arguments=(f"--kubeconfig={kubeconfig}", *serving, *arguments))

    return make


_UNREACHABLE = {
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "x"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "current-context": "a",
}
