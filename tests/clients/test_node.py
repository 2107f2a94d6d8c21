"""The JavaScript client, as its own program."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parent.parent / ".cache" / "clients-node"

pytestmark = pytest.mark.skipif(
    not (MODULES / ".made-from").exists() or shutil.which("node") is None,
    reason="the JavaScript client is not installed: scripts/install-clients",
)


def test_client_node(run_client: Callable[..., str], tmp_path: pathlib.Path) -> None:
    """Verbs, patches, a watch, an informer, objects of any kind, errors."""
    # Imports are looked up from where the program is.
    (tmp_path / "node_modules").symlink_to(MODULES / "node_modules")
    program = shutil.copy(HERE / "node" / "client.mjs", tmp_path)
    assert run_client("node", str(program)) == "done\n"
