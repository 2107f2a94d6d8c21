"""The pytest plug-in, used by a test suite of its own in a child process."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from pykcp.testing.client import eventually
from pykcp.testing.server import environment

SUITE = """
import pathlib, pytest, subprocess
from pykcp.client.sync import connect

@pytest.mark.parametrize("number", range({count}))
def test_isolated(workspace, number):
    maps = workspace.objects("configmaps")
    maps.create({{"metadata": {{"name": "same-name"}}}})

def test_the_kubeconfig_is_of_the_workspace(workspace, kubeconfig):
    with connect(kubeconfig) as kcp:
        assert kcp.current.path == workspace.path

def test_the_server(kcp_server):
    assert kcp_server.kubeconfig.exists()
    print("folder", kcp_server.root.parent, "server", kcp_server.pid)
"""


def run(folder: pathlib.Path, text: str, *options: str) -> subprocess.Popen[str]:
    (folder / "test_suite.py").write_text(text)
    # An installation that is older than the entry point does not load the plug-in by itself.
    is_installed = "pykcp" in entry_points(group="pytest11").names
    given = [] if is_installed else ["-p", "pykcp.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:randomly", *given, *options]
    return subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "test_suite.py"],
        cwd=folder,
        env={**environment(), "PYTEST_PLUGINS": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_workspace_for_every_test(tmp_path: pathlib.Path, options: tuple[str, ...]) -> None:
    printed, _ = run(tmp_path, SUITE.format(count=8), *options).communicate()
    assert "10 passed" in printed, printed


def test_nothing_is_left_behind(tmp_path: pathlib.Path) -> None:
    """Even if pytest is killed in the middle of a test."""
    suite = SUITE.format(count=1) + "\ndef test_waits():\n    print('waits', flush=True); input()\n"
    process = run(tmp_path, suite)
    assert process.stdout is not None
    words: list[str] = []
    for line in process.stdout:
        if line.lstrip(".").startswith("folder"):
            words = line.lstrip(".").split()
        if "waits" in line or "passed" in line:
            break
    folder, pid = pathlib.Path(words[1]), int(words[3])
    assert folder.exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    eventually(lambda: not folder.exists())
    eventually(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Its parent was killed: in a container it may stay a zombie, which nobody reaps.
    return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
