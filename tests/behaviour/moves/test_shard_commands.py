"""`kubectl kcp shard …` on a fleet of two shards, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykcp.testing.moving.migrations import CONFIG_MAPS, GATE, cluster_of, holder, make_on
from pykcp.testing.server import environment
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import make_workspace


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), shard_flags=(GATE,)) as made:
        yield made


def run(two: Fleet, words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pykcp.cli.plugins", "kubectl-kcp", "shard", *words.split()],
        env={**environment(), "KUBECONFIG": two.files.kubeconfig("admin")},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )


def shard(two: Fleet, words: str) -> list[list[str]]:
    """Run, expect success; the words of each line."""
    done = run(two, words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return [line.split() for line in done.stdout.splitlines()]


def test_a_shard_is_drained_and_used_again(two: Fleet) -> None:
    for number in range(3):
        make_on(two, f"on-root-{number}", "root")
    client = make_on(two, "team", "shard-1")
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "kept"}}).status == 201
    shard(two, "cordon root")
    child = make_workspace(client, "child")["spec"]["cluster"]
    shard(two, "uncordon root")
    team = cluster_of(client)
    assert holder(two, child) == "shard-1"
    listed = {row[0]: row[1:3] for row in shard(two, "list")}
    assert listed["shard-1"] == ["Ready", "2"]

    refused = run(two, "drain shard-1")
    assert refused.returncode == 1
    assert "the plan is not approved" in refused.stderr
    plan = shard(two, "plan drain shard-1")
    assert [row[0] for row in plan] == ["WORKSPACE", "root:team:child", "root:team"]
    assert holder(two, team) == "shard-1"

    done = shard(two, "drain shard-1 --yes")
    assert [row[:2] for row in done[-2:]] == [
        ["[1/2]", "root:team:child:"],
        ["[2/2]", "root:team:"],
    ]
    assert (holder(two, team), holder(two, child)) == ("root", "root")
    assert client.get(f"{CONFIG_MAPS}/kept").status == 200
    listed = {row[0]: row[1:3] for row in shard(two, "list")}
    assert (listed["root"], listed["shard-1"]) == (["Ready", "5"], ["Cordoned", "0"])
    assert shard(two, "plan drain shard-1") == [["Nothing", "to", "move."]]

    assert shard(two, "rebalance --yes") == [["Nothing", "to", "move."]]  # it is cordoned
    assert shard(two, "uncordon shard-1") == [["shard", "shard-1", "uncordoned"]]
    assert len(shard(two, "plan rebalance")) == 3
    shard(two, "rebalance --yes")
    listed = {row[0]: row[2] for row in shard(two, "list")}
    assert (listed["root"], listed["shard-1"]) == ("3", "2")


def test_a_subtree_is_moved(two: Fleet) -> None:
    client = make_on(two, "tree", "root")
    below = make_workspace(client, "below")["spec"]["cluster"]
    shard(two, "move :root:tree --to shard-1 --recursive --yes")
    assert (holder(two, cluster_of(client)), holder(two, below)) == ("shard-1", "shard-1")
    assert shard(two, "move :root:tree --to shard-1 --recursive --yes") == [
        ["Nothing", "to", "move."]
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("drain nowhere --yes", 'shard "nowhere" not found'),
        ("plan drain nowhere", 'shard "nowhere" not found'),
        ("move :root:none --to shard-1 --yes", 'workspace "root:none" not found'),
        ("move :root:none --yes", 'required flag(s) "to" not set'),
        ("cordon nowhere", 'shards.core.kcp.io "nowhere" not found'),
    ],
)
def test_mistakes(two: Fleet, words: str, problem: str) -> None:
    done = run(two, words)
    assert done.returncode == 1
    assert problem in done.stderr
