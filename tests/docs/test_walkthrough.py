"""The ten minutes, walked through by a machine."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from pykcp.testing.server import server

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "start" / "ten-minutes.md"


def commands() -> list[str]:
    """The shell blocks of the page, without the one that starts the server."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_there_is_something_to_walk_through() -> None:
    """The page has its blocks where the test looks for them."""
    assert len(commands()) >= 6


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_every_command_works(tmp_path: pathlib.Path) -> None:
    """All blocks, in order, in one shell, as a reader would type them."""
    with server(directory=tmp_path):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(commands())],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "configmap/greeting created" in done.stdout
    assert "tom    9" in done.stdout
