"""The page about moving, walked through by a machine."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from pykcp.testing.moving.migrations import GATE
from pykcp.testing.server import environment
from pykcp.testing.sharded import fleet

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "operate" / "moving.md"


def blocks() -> list[str]:
    """The shell blocks of the page, without the one that starts the installation."""
    found = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found[0].startswith("kcp sharded")
    return found[1:]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_every_command_works(tmp_path: pathlib.Path) -> None:
    programs = pathlib.Path(sys.executable).parent  # the plug-ins are installed there
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    with fleet(tmp_path / "fleet", shard_flags=(GATE,)):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks())],
            cwd=tmp_path,
            env={**environment(), "PATH": path, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nshard-1\n" in done.stdout
    assert "root:team: shard-1 -> root" in done.stdout
