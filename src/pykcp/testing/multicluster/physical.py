"""Servers that stand for physical clusters: processes of their own, with Kubernetes' kinds."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

LOGICAL = "physical"
"""The logical cluster that such a server serves as if it were all of it."""


@contextmanager
def physical_cluster(*flags: str, root: pathlib.Path | None = None) -> Iterator[ServerProcess]:
    """A server with the kinds of workloads, like a kube-apiserver."""
    with server(f"--kubernetes-cluster={LOGICAL}", *flags, directory=root) as process:
        yield process


def inside(process: ServerProcess) -> TestClient:
    """A client in the cluster."""
    return process.client(cluster=LOGICAL)


def kubeconfig_of(process: ServerProcess) -> str:
    """A kubeconfig of the cluster, with all certificates inside."""
    import yaml

    document = yaml.safe_load(process.kubeconfig.read_text())
    document["current-context"] = "shard-base"
    text: str = yaml.safe_dump(document)
    return text
