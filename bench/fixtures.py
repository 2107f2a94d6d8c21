"""A pytest run of many tests, each in a workspace of its own, with the plug-in of the package.

    bench/run fixtures [--tests 200]

The time is that of the whole run: pytest itself, the server's start, and for each test a new workspace, a write and a
read in it, and its deletion.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

_TESTS = """import pytest


@pytest.mark.parametrize("number", range({count}))
def test_in_a_workspace_of_its_own(workspace, number):
    metadata = {{"name": "own", "namespace": "default"}}
    kind = {{"apiVersion": "v1", "kind": "ConfigMap"}}
    workspace.create_object({{**kind, "metadata": metadata, "data": {{"n": str(number)}}}})
    assert workspace.get("ConfigMap", "own", "default")["data"] == {{"n": str(number)}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=200)
    count = parser.parse_args().tests
    with tempfile.TemporaryDirectory(prefix="pykcp-fixtures-") as folder:
        (pathlib.Path(folder) / "test_many.py").write_text(_TESTS.format(count=count))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_many.py"]
        start = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - start
    if done.returncode or f"{count} passed" not in done.stdout:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        return 1
    print(
        f"{count} tests, a workspace for each: {seconds:.1f} s, {seconds / count * 1000:.0f} ms a test"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
