"""Many workspaces at once, and what is in the way of one deep down."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess, environment
from pykcp.testing.workspaces import WORKSPACES, inside, make_workspace, post_workspace
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
_numbers = itertools.count(1)


@pytest.fixture
def org(root: TestClient) -> TestClient:
    name = f"bulk{next(_numbers)}"
    make_workspace(root, name)
    return root.in_cluster(f"root:{name}")


def path_of(client: TestClient) -> str:
    return client.prefix.removeprefix("/clusters/")


def names(client: TestClient) -> list[str]:
    return [one["metadata"]["name"] for one in client.get(WORKSPACES).json["items"]]


def test_a_selection_goes_at_once(org: TestClient) -> None:
    for number in range(40):
        post_workspace(org, f"w{number:02}")
    for number in range(0, 40, 2):
        labels = {"metadata": {"labels": {"batch": "old"}}}
        assert org.patch(f"{WORKSPACES}/w{number:02}", labels, MERGE).status == 200
    gone = org.delete(WORKSPACES, labelSelector="batch=old")
    assert gone.status == 200
    assert len(gone.json["items"]) == 20
    eventually(lambda: names(org) == [f"w{number:02}" for number in range(1, 40, 2)])
    assert org.delete(WORKSPACES, labelSelector="batch=none").json["items"] == []


def hold(cluster: TestClient) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    assert cluster.post(MAPS, held).status == 201


def release(cluster: TestClient) -> None:
    freed = cluster.patch(f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert freed.status == 200, freed


def message(parent: TestClient, name: str) -> str:
    found: Object = parent.get(f"{WORKSPACES}/{name}").json
    for condition in (found.get("status") or {}).get("conditions") or ():
        if condition["type"] == "WorkspaceContentDeleted":
            return str(condition.get("message") or "")
    return ""


KCPS_WORDS = (
    "Some resources are remaining: workspaces.tenancy.kcp.io has 1 resource instances; "
    "Some content in the logical cluster has finalizers remaining: "
    "core.kcp.io/logicalcluster in 1 resource instances"
)


def test_what_blocks_is_named_at_the_top(org: TestClient) -> None:
    here, path = org, path_of(org)
    for name in ("a", "b", "c"):
        make_workspace(here, name)
        here = inside(here, name)
    make_workspace(here, "d")
    hold(here)
    assert org.delete(f"{WORKSPACES}/a").status == 200
    eventually(lambda: message(org, "a") == f"{KCPS_WORDS}; blocked in {path}:a:b:c")
    eventually(lambda: message(inside(org, "a"), "b") == f"{KCPS_WORDS}; blocked in {path}:a:b:c")
    told = eventually(lambda: message(inside(inside(org, "a"), "b"), "c"))
    assert "configmaps. has 1 resource instances" in told
    assert "blocked in" not in told
    release(here)
    eventually(lambda: org.get(f"{WORKSPACES}/a").status == 404)


def test_several_that_block(org: TestClient) -> None:
    make_workspace(org, "a")
    a, path = inside(org, "a"), path_of(org)
    for number in range(5):
        make_workspace(a, f"w{number}")
        hold(inside(a, f"w{number}"))
    assert org.delete(f"{WORKSPACES}/a").status == 200
    end = f"; blocked in {path}:a:w0, {path}:a:w1, {path}:a:w2 (and 2 more)"
    eventually(lambda: message(org, "a").endswith(end))
    for number in range(4):
        release(inside(a, f"w{number}"))
    eventually(lambda: message(org, "a") == f"{KCPS_WORDS}; blocked in {path}:a:w4")
    release(inside(a, "w4"))
    eventually(lambda: org.get(f"{WORKSPACES}/a").status == 404)


def test_the_plugin_tells_how_far_it_is(shard: ServerProcess, org: TestClient) -> None:
    make_workspace(org, "a")
    make_workspace(inside(org, "a"), "b")
    hold(inside(inside(org, "a"), "b"))
    path = path_of(org)
    address = f"https://127.0.0.1:{shard.port}/clusters/{path}"
    program = subprocess.Popen(
        [
            *(sys.executable, "-m", "pykcp.cli.plugins", "kubectl-ws"),
            *("delete", "a", "--wait", "--timeout=60s", "--context=shard-base"),
            f"--kubeconfig={shard.kubeconfig}",
            f"--server={address}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert program.stdout is not None
    assert program.stderr is not None
    try:
        assert program.stdout.readline() == f'Workspace "{path}:a" is being deleted.\n'
        told = ""
        while f"blocked in {path}:a:b" not in told:
            told = program.stderr.readline()
            assert told, "it ended"
        release(inside(inside(org, "a"), "b"))
        out, err = program.communicate(timeout=60)
        assert out == f'Workspace "{path}:a" deleted.\n'
        assert program.returncode == 0, err
    finally:
        program.kill()
        program.wait()
