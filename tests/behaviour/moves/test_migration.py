"""LogicalClusterMigration between two shards of a fleet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moves import (
    CONFIG_MAPS,
    GATE,
    bind_migrations,
    cluster_of,
    holder,
    make_on,
    migrate,
    wait_for_phase,
)
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), shard_flags=(GATE,)) as made:
        bind_migrations(made)
        yield made


def config_maps(client: TestClient) -> dict[str, dict[str, str]]:
    """Uid, version and data by name."""
    items = client.get(CONFIG_MAPS).json["items"]
    return {
        item["metadata"]["name"]: {
            "uid": item["metadata"]["uid"],
            "version": item["metadata"]["resourceVersion"],
            **(item.get("data") or {}),
        }
        for item in items
    }


def test_everything_moves_as_it_is(two: Fleet) -> None:
    client = make_on(two, "moved", "root")
    for number in range(5):
        body = {"metadata": {"name": f"m{number}"}, "data": {"n": str(number)}}
        assert client.post(CONFIG_MAPS, body).status == 201
    before = config_maps(client)
    cluster = cluster_of(client)
    migrate(two, "moved", cluster, "shard-1")
    done = wait_for_phase(two, "moved", "Completed")
    conditions = {one["type"]: one["status"] for one in done["status"]["conditions"]}
    assert conditions == dict.fromkeys(
        ("OriginReady", "DataCopied", "OriginCleaned", "Completed"), "True"
    )
    assert done["status"]["originShard"] == "root"
    assert done["status"]["entriesCopied"] > 5
    assert holder(two, cluster) == "shard-1"
    assert config_maps(two.client("shard-1", cluster)) == before
    eventually(lambda: config_maps(client) == before)
    found = client.get(LOGICAL_CLUSTER).json
    assert "internal.kcp.io/migrating" not in found["metadata"]["annotations"]
    eventually(
        lambda: (
            client.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["core.kcp.io/shard"]
            == "shard-1"
        )
    )
    workspace = two.client(cluster="root").get(f"{WORKSPACES}/moved").json
    assert workspace["metadata"]["annotations"]["core.kcp.io/shard"] == "shard-1"
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "later"}}).status == 201
