"""Fixtures for pytest, found by it where pykcp is installed: a server and a workspace per test.

    def test_it(workspace):
        workspace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

The server starts with the first test that needs one; under xdist each worker has its own. Its data
are in memory where the system has a file system there (`/dev/shm`).
"""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pykcp.client.sync import SyncKcp, SyncWorkspace
    from pykcp.testing.server import ServerProcess

_MEMORY = "/dev/shm"  # noqa: S108
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykcp")
    group.addoption(
        "--kcp-kubeconfig",
        default="",
        help="use a running server instead of starting one; its root workspace must be writable",
    )
    parser.addini(
        "kcp_flags", "flags for the `kcp start` of the fixture kcp_server", type="args", default=[]
    )


@pytest.fixture(scope="session")
def kcp_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A running `kcp start`: `.kubeconfig` is its administrator's file, `.log()` what it logged."""
    from pykcp.testing.server import ServerProcess

    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pykcp-pytest-", dir=place))
    server = ServerProcess(folder / ".kcp", request.config.getini("kcp_flags"))
    with _Guarded(folder, server):
        yield server


@pytest.fixture(scope="session")
def kcp(request: pytest.FixtureRequest) -> Iterator[SyncKcp]:
    """A client of the server, as its administrator."""
    from pykcp.client.sync import connect

    given = request.config.getoption("--kcp-kubeconfig")
    path = given or request.getfixturevalue("kcp_server").kubeconfig
    with connect(path, context="" if given else "root", manager="pytest") as client:
        yield client


@pytest.fixture
def workspace(kcp: SyncKcp, request: pytest.FixtureRequest) -> Iterator[SyncWorkspace]:
    """A new workspace for this test; deleted after it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    name = f"pytest-{worker}-{os.getpid()}-{next(_numbers)}"
    made = kcp.workspace("root").create(name)
    yield made
    made.delete()


@pytest.fixture
def kubeconfig(workspace: SyncWorkspace, tmp_path: pathlib.Path) -> pathlib.Path:
    """A kubeconfig whose server is the test's workspace."""
    from pykcp.client.adapters import write_kubeconfig

    return write_kubeconfig(workspace, tmp_path / "kubeconfig")


class _Guarded:
    """Runs a server and removes it with its folder, also if this process is killed."""

    def __init__(self, folder: pathlib.Path, server: ServerProcess) -> None:
        self._folder, self._server = folder, server
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        try:
            self._server.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        command = [sys.executable, "-S", str(pathlib.Path(__file__).with_name("guard.py"))]
        self._guard = subprocess.Popen(
            [*command, str(self._server.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # an interrupt in the terminal is not for it
        )

    def __exit__(self, *_: object) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        try:
            self._server.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._guard.stdin.close()
            self._guard.wait()
