"""A shard is killed during a move, at some moment: every acknowledged write is there, once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

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
from pykcp.testing.sharded import Fleet, fleet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), shard_flags=(GATE,)) as made:
        bind_migrations(made)
        yield made


@pytest.mark.parametrize("victim", ["root", "shard-1", "front-proxy", "cache"])
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4, 0.8])
def test_nothing_is_lost_or_doubled(two: Fleet, victim: str, delay: float) -> None:
    name = f"{victim}-{int(1000 * delay)}"
    client = make_on(two, name, "root")
    cluster = cluster_of(client)
    with writing(lambda: two.client(cluster=cluster), CONFIG_MAPS, 4) as writers:
        eventually(lambda: all(len(one.acknowledged) > 5 for one in writers))
        migrate(two, name, cluster, "shard-1")
        time.sleep(delay)  # which step it meets is left to chance
        two[victim].kill()
        two[victim].start()
        wait_for_phase(two, name, "Completed", 60)
        counts = [len(one.acknowledged) for one in writers]
        eventually(
            lambda: all(len(w.acknowledged) > n for w, n in zip(writers, counts, strict=True)), 60
        )
    assert holder(two, cluster) == "shard-1"
    written = {name: version for one in writers for name, version in one.acknowledged.items()}
    items = two.client("shard-1", cluster).get(CONFIG_MAPS).json["items"]
    found = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}
    assert len(found) == len(items)
    assert {name: found.get(name) for name in written} == written
