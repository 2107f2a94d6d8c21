"""`kubectl kcp shard …` on a fleet of two shards, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import eventually
from pykcp.testing.moving.migrations import (
    CONFIG_MAPS,
    GATE,
    MIGRATIONS,
    bind_in_root,
    cluster_of,
    holder,
    make_on,
    migrate,
    wait_for_phase,
)
from pykcp.testing.server import environment
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import WORKSPACES, make_workspace


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
    # The home workspace of the user is below no other one.
    home = two.client(cluster="root").get(f"{WORKSPACES}/~").json["spec"]["cluster"]
    bind_in_root(two, "migration.kcp.io", MIGRATIONS)
    migrate(two, "home", home, "shard-1")
    wait_for_phase(two, "home", "Completed")
    assert two.client(cluster="root").delete(f"{MIGRATIONS}/home").status == 200
    client = make_on(two, "team", "shard-1")
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "kept"}}).status == 201
    shard(two, "cordon root")
    child = make_workspace(client, "child")["spec"]["cluster"]
    shard(two, "uncordon root")
    team = cluster_of(client)
    assert holder(two, child) == "shard-1"
    listed = {row[0]: row[1:3] for row in shard(two, "list")}
    assert listed["shard-1"] == ["Ready", "3"]

    refused = run(two, "drain shard-1")
    assert refused.returncode == 1
    assert "the plan is not approved" in refused.stderr
    plan = shard(two, "plan drain shard-1")
    names = ["WORKSPACE", "root:team:child", "root:team", "user:kcp-admin"]
    assert [row[0] for row in plan] == names
    assert holder(two, team) == "shard-1"

    done = shard(two, "drain shard-1 --yes")
    assert sorted(row[1] for row in done[-3:]) == [f"{name}:" for name in names[2:0:-1] + names[3:]]
    assert [holder(two, name) for name in (team, child, home)] == ["root"] * 3
    assert client.get(f"{CONFIG_MAPS}/kept").status == 200
    listed = {row[0]: row[1:3] for row in shard(two, "list")}
    assert (listed["root"], listed["shard-1"]) == (["Ready", "6"], ["Cordoned", "0"])
    assert shard(two, "plan drain shard-1") == [["Nothing", "to", "move."]]

    assert shard(two, "rebalance --yes") == [["Nothing", "to", "move."]]  # it is cordoned
    assert shard(two, "uncordon shard-1") == [["shard", "shard-1", "uncordoned"]]
    assert len(shard(two, "plan rebalance")) == 4
    shard(two, "rebalance --yes")
    listed = {row[0]: row[2] for row in shard(two, "list")}
    assert (listed["root"], listed["shard-1"]) == ("3", "3")


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


PLANS = "/apis/moving.pykcp.io/v1alpha1/moveplans"


def plan_of(two: Fleet, name: str) -> Any:
    return two.client(cluster="root").get(f"{PLANS}/{name}").json


def test_a_plan_is_approved_later_and_survives_the_shard_that_has_it(two: Fleet) -> None:
    clients = [make_on(two, f"planned-{number}", "shard-1") for number in range(2)]
    others = [row[0] for row in shard(two, "plan drain shard-1")[1:]]
    created = shard(two, "plan drain shard-1 --create")
    assert created[-1][:3] == ["plan", "drain-shard-1", "created;"]
    root = two.client(cluster="root")
    eventually(
        lambda: (plan_of(two, "drain-shard-1").get("status") or {}).get("phase") == "Planned"
    )
    assert [holder(two, cluster_of(client)) for client in clients] == ["shard-1", "shard-1"]
    listed = {row[0]: row[1:] for row in shard(two, "plans")}
    assert listed["drain-shard-1"] == ["Planned", "0", str(len(others)), "0", "0"]
    exists = run(two, "plan drain shard-1 --create")
    assert 'plan "drain-shard-1" exists' in exists.stderr
    changed = root.patch(f"{PLANS}/drain-shard-1", {"spec": {"moves": []}})
    assert (changed.status, "moves are immutable" in changed.json["message"]) == (422, True)

    # No client follows it, and the shard that carries it out is killed.
    assert root.patch(f"{PLANS}/drain-shard-1", {"spec": {"approved": True}}).status == 200
    two["root"].kill()
    two["root"].start()
    eventually(
        lambda: (plan_of(two, "drain-shard-1").get("status") or {}).get("phase") == "Completed", 60
    )
    assert [holder(two, cluster_of(client)) for client in clients] == ["root", "root"]
    assert plan_of(two, "drain-shard-1")["status"]["moved"] == len(others)
    eventually(lambda: not root.get(MIGRATIONS).json["items"])
    assert {row[0]: row[1] for row in shard(two, "list")}["shard-1"] == "Cordoned"
    shard(two, "approve drain-shard-1")  # follows what has ended
    shard(two, "uncordon shard-1")


def test_a_plan_that_cannot_be_carried_out_stops(two: Fleet) -> None:
    bind_in_root(two, "moving.pykcp.io", PLANS)
    cluster = cluster_of(make_on(two, "stuck", "root"))
    root = two.client(cluster="root")
    moves = [{"path": "root:stuck", "logicalCluster": cluster, "destination": "nowhere"}]
    body = {
        "apiVersion": "moving.pykcp.io/v1alpha1",
        "kind": "MovePlan",
        "metadata": {"name": "bad"},
        "spec": {"approved": True, "moves": moves},
    }
    assert root.post(PLANS, body).status == 201
    done = run(two, "approve bad")
    assert done.returncode == 1
    assert 'root:stuck cannot be moved: shard "nowhere" not found' in done.stderr
    assert plan_of(two, "bad")["status"]["failed"][0]["attempts"] == 2
    assert holder(two, cluster) == "root"
