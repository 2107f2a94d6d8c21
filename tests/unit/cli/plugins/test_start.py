"""Plugins start for every line that is typed: they import little."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "asyncio",
    "aiohttp",
    "cryptography",
    "uvloop",
    "msgspec",
    "pykcp.programs",
    "pykcp.registry",
)
LATE = ("ssl", "http.client", "pathlib", "dataclasses", "inspect")


def _imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_nothing_of_the_server_is_imported():
    everything = _imported(
        "import pykcp.cli.plugins.programs, pykcp.cli.plugins.workspace.create, "
        "pykcp.cli.plugins.workspace.browse, pykcp.cli.plugins.quickstart.command, "
        "pykcp.cli.plugins.access.rest, pykcp.cli.plugins.apis.snapshot"
    )
    assert not everything.intersection(HEAVY)


def test_a_prompt_needs_no_network():
    found = _imported("import pykcp.cli.plugins.programs, pykcp.cli.plugins.workspace.use")
    assert not found.intersection(LATE)
