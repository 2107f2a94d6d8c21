"""`kcp admin fsck`: says what does not fit together, whether the server runs or not."""

from __future__ import annotations

import subprocess
import sys

from pykcp.testing.client import TestClient
from pykcp.testing.programs import fsck
from pykcp.testing.server import ServerProcess, environment
from pykcp.testing.workspaces import LOGICAL_CLUSTER, make_workspace


def test_a_shard_in_order_and_one_that_is_not(shard: ServerProcess, alice: TestClient) -> None:
    cluster = make_workspace(alice, "checked")["spec"]["cluster"]
    code, text = fsck(shard)
    assert code == 0, text
    assert "1 workspaces (0 unfinished)" in text
    assert text.endswith("consistent\n")

    shard.stop()
    code, text = fsck(shard)
    assert code == 0, text

    shard.start()
    masters = shard.client(cluster=cluster)
    lost = masters.patch(LOGICAL_CLUSTER, {"metadata": {"finalizers": None}})
    assert lost.status == 200, lost
    shard.stop()
    _forget(shard, f"core.kcp.io/logicalclusters/{cluster}//cluster")
    code, text = fsck(shard)
    assert code == 1, text
    assert f"orphaned: {cluster}: " in text
    assert "lost: root:checked: " in text
    shard.start()


def _forget(shard: ServerProcess, key: str) -> None:
    """Take a row out of the store's table, as a disaster would."""
    import sqlite3

    with sqlite3.connect(shard.root / "store.db") as connection:
        gone = connection.execute("DELETE FROM current WHERE key = ?", (key,))
        assert gone.rowcount == 1


def test_nobody_else_sees_the_process(alice: TestClient) -> None:
    for path in ("/debug/fsck", "/debug/tasks"):
        assert alice.get(path).status == 404


def test_where_there_is_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp", "admin", "fsck", "--root-directory=/nonexistent"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 2
    assert "set --root-directory" in done.stderr
