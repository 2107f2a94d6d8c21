"""Shards that stop while workspaces are placed on them and deleted: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import (
    LOGICAL_CLUSTER,
    WORKSPACES,
    is_ready,
    make_workspace,
    post_workspace,
)
from pykcp.types import Object

pytestmark = pytest.mark.slow

LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
SECONDS = 60.0


@pytest.fixture
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        root = made.client("root", "root")
        listed = "/apis/core.kcp.io/v1alpha1/shards"
        eventually(lambda: len(root.get(listed).json["items"]) == 2)
        yield made


def on(shard: str) -> Object:
    return {"location": {"selector": {"matchLabels": {"name": shard}}}}


def owners(shards: Fleet) -> Counter[str]:
    """How many logical clusters there are of each Workspace, by uid, on all shards."""
    found: Counter[str] = Counter()
    for shard in shards.shards:
        listed = shards.client(shard, "*").get(LOGICAL_CLUSTERS).json["items"]
        for item in listed:
            owner = (item.get("spec") or {}).get("owner")
            if owner and owner["cluster"] == "root":
                found[owner["uid"]] += 1
    return found


def test_a_workspace_waits_for_the_only_shard_that_it_may_be_on(shards: Fleet) -> None:
    root = shards.client("root", "root")
    shards["shard-1"].kill()
    waiting = post_workspace(root, "waiting", **on("shard-1"))
    free = [make_workspace(root, f"free{n}") for n in range(4)]
    assert {w["metadata"]["annotations"]["core.kcp.io/shard"] for w in free} == {"root"}
    shards["shard-1"].start()
    ready: Object = eventually(is_ready(root, "waiting"), SECONDS)
    assert ready["metadata"]["annotations"]["core.kcp.io/shard"] == "shard-1"
    assert owners(shards)[waiting["metadata"]["uid"]] == 1


@pytest.mark.parametrize("victim", ["root", "shard-1"])
def test_a_crash_while_workspaces_are_placed(shards: Fleet, victim: str) -> None:
    def post(number: int) -> Object | None:
        try:
            return post_workspace(shards.client("root", "root"), f"crash{number}", **on("shard-1"))
        except OSError:
            return None  # not acknowledged

    with ThreadPoolExecutor(8) as pool:
        posted = [pool.submit(post, number) for number in range(120)]
        eventually(lambda: sum(one.done() for one in posted) >= 40)
        shards[victim].kill()
        made = [one.result() for one in posted]
    shards[victim].start()
    root = shards.client("root", "root")
    acknowledged = [one for one in made if one is not None]
    assert acknowledged
    for one in acknowledged:
        eventually(is_ready(root, one["metadata"]["name"]), SECONDS)
    counted = owners(shards)
    listed = root.get(WORKSPACES).json["items"]
    assert {counted[w["metadata"]["uid"]] for w in listed} == {1}
    assert sum(counted.values()) == len(listed)


def test_a_crash_while_workspaces_are_deleted(shards: Fleet) -> None:
    root = shards.client("root", "root")
    made = [make_workspace(root, f"gone{n}", **on("shard-1")) for n in range(30)]
    for number in range(30):
        assert root.delete(f"{WORKSPACES}/gone{number}").status == 200
        if number == 15:
            shards["shard-1"].kill()
    shards["shard-1"].start()
    eventually(lambda: not root.get(WORKSPACES).json["items"], SECONDS)
    for one in made:
        cluster: TestClient = shards.client("shard-1", one["spec"]["cluster"])
        assert cluster.get(LOGICAL_CLUSTER).status == 404
