"""Moves between shards that several processes serve."""

from __future__ import annotations

import pathlib

from pykcp.testing.client import eventually
from pykcp.testing.moving.histories import writing
from pykcp.testing.moving.migrations import (
    CONFIG_MAPS,
    GATE,
    bind_migrations,
    cluster_of,
    holder,
    make_on,
    migrate,
    wait_for_phase,
)
from pykcp.testing.sharded import fleet


def test_all_processes_of_both_shards_know(tmp_path: pathlib.Path) -> None:
    with fleet(tmp_path, shard_flags=(GATE, "--serving-processes=2")) as two:
        bind_migrations(two)
        client = make_on(two, "busy", "root")
        cluster = cluster_of(client)
        with writing(lambda: two.client(cluster=cluster), CONFIG_MAPS, 3) as writers:
            eventually(lambda: all(len(one.acknowledged) > 10 for one in writers))
            migrate(two, "busy", cluster, "shard-1")
            wait_for_phase(two, "busy", "Completed")
            counts = [len(one.acknowledged) for one in writers]
            eventually(
                lambda: all(
                    len(one.acknowledged) > count
                    for one, count in zip(writers, counts, strict=True)
                )
            )
        eventually(lambda: holder(two, cluster) == "shard-1")
        assert not [text for one in writers for text in one.failures]
        assert "starting another one" not in two["shard-1"].log()
        written = {name: v for one in writers for name, v in one.acknowledged.items()}
        items = client.get(CONFIG_MAPS).json["items"]
        found = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}
        assert {name: found.get(name) for name in written} == written
