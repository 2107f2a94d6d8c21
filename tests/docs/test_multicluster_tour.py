"""The tour through multi-cluster, with kubectl alone, as a new user takes it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

import pytest
from tests.docs.test_pages import environ

from pykcp.testing.multicluster.downstream import (
    PhysicalCluster,
    make_node,
    missing_for_real_cluster,
    own_cluster,
    real_cluster,
)
from pykcp.testing.multicluster.workloads import Kubelet, WorkloadController
from pykcp.testing.server import server

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "multicluster.md"
SECONDS = 1000
"""For one block: kubectl waits in it for 300 seconds at a time, and returns as soon as it can."""


def steps() -> list[str]:
    """The shell blocks of the page, and its marks."""
    found = re.findall(
        r"^```sh\n(.*?)^```$|^<!-- (west \w+) -->$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return [block or mark for block, mark in found]


def flags() -> list[str]:
    """Those with which the page starts the server."""
    found = re.search(r"^kcp start (.*)$", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split()


def impatient_flags() -> list[str]:
    """The same with shorter times: nobody watches."""
    return [word.replace("=5s", "=2s") for word in flags()]


class StoppableCluster:
    """A server as a cluster, with what runs its workloads."""

    def __init__(self, cluster: PhysicalCluster) -> None:
        assert cluster.process is not None
        self._client, self._process = cluster.client, cluster.process
        self._controller = WorkloadController(self._client)

    def __enter__(self) -> Self:
        self._controller.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.__exit__()

    def stop(self) -> None:
        self._controller.__exit__()
        self._process.stop()

    def start(self) -> None:
        self._process.start()
        self._controller = WorkloadController(self._client)
        self._controller.__enter__()


def walk(folder: pathlib.Path, west: StoppableCluster) -> str:
    """All blocks in order; `west` stops and starts where the page says so."""
    actions: dict[str, Callable[[], object]] = {
        "west stops": west.stop,
        "west starts": west.start,
    }
    printed = ""
    kept = "export KUBECONFIG=.kcp/admin.kubeconfig\n"
    for step in steps():
        if step in actions:
            actions[step]()
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", kept + step],
            cwd=folder,
            env=environ(folder),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        printed += done.stdout
    return printed


def check(printed: str) -> None:
    assert 'deployment "web" successfully rolled out' in printed
    assert re.search(r"^web +6/6 +6 +6 ", printed, re.MULTILINE), printed
    assert re.search(r"^east +yes +3 +Healthy", printed, re.MULTILINE)
    assert re.search(r"^east +yes +6 ", printed, re.MULTILINE), printed
    assert "configmap/settings--west" in printed
    assert "Evicted" in printed


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_the_tour(tmp_path: pathlib.Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(server(*impatient_flags(), directory=tmp_path))
        east = stack.enter_context(own_cluster("east", tmp_path))
        stack.enter_context(WorkloadController(east.client))
        west = stack.enter_context(own_cluster("west", tmp_path))
        check(walk(tmp_path, stack.enter_context(StoppableCluster(west))))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
@pytest.mark.skipif(bool(missing_for_real_cluster()), reason=f"no {missing_for_real_cluster()}")
def test_the_tour_with_a_cluster_of_kubernetes(tmp_path: pathlib.Path) -> None:
    """`east` is kube-apiserver with its controllers: ReplicaSets and Pods are made."""
    with ExitStack() as stack:
        stack.enter_context(server(*flags(), directory=tmp_path))
        east = stack.enter_context(real_cluster("east", tmp_path))
        west = stack.enter_context(own_cluster("west", tmp_path))
        make_node(east.client)
        stack.enter_context(Kubelet(east.client))
        check(walk(tmp_path, stack.enter_context(StoppableCluster(west))))
