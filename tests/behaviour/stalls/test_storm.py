"""Four tenants send whatever they can think of, and a fifth loses nothing that it was told of."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).parents[3] / "bench"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_was_acknowledged_is_kept_and_shown(tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "figures.json"
    path = os.pathsep.join((str(BENCH), str(BENCH.parent / "src")))
    ran = subprocess.run(
        [sys.executable, str(BENCH / "storm.py"), "--seconds=40", "--seed=7", f"--json={figures}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(figures.read_text())
    assert found["attacks"] > 10, ran.stdout
    assert found["kept"] > 100, ran.stdout
    assert found["not_read_back"] == 0, ran.stdout
    assert found["lost"] == 0, ran.stdout
