"""Moves between shards on etcd and on SQLite, and one list over both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
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
from pykcp.testing.sharded import Fleet

pytestmark = pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """`root` on SQLite, two others on one etcd."""
    etcd = EtcdProcess(tmp_path_factory.mktemp("etcd"))
    etcd.start()
    masters_pass = ("--authentication-drop-groups=none",)  # so that a test can read everything
    made = Fleet(tmp_path_factory.mktemp("fleet"), 3, (GATE,), masters_pass)
    for name in ("shard-1", "shard-2"):
        process = made[name]
        flags = (f"--etcd-servers={etcd.url}", f"--etcd-prefix=/{name}")
        process.member = process.member._replace(words=(*process.member.words, *flags))
    try:
        made.start()
        bind_migrations(made)
        yield made
    finally:
        made.stop()
        etcd.kill()


def test_round_trip_under_load(mixed: Fleet) -> None:
    """From SQLite to etcd, from etcd to etcd, and back; nothing acknowledged is lost."""
    client = make_on(mixed, "travels", "root")
    cluster = cluster_of(client)
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "gone"}}).status == 201
    with writing(lambda: mixed.client(cluster=cluster), CONFIG_MAPS, 2) as writers:
        for number, shard in enumerate(("shard-1", "shard-2", "root")):
            counts = [len(one.acknowledged) for one in writers]
            migrate(mixed, f"travels-{number}", cluster, shard)
            wait_for_phase(mixed, f"travels-{number}", "Completed")
            assert holder(mixed, cluster) == shard
            eventually(
                lambda counts=counts: all(
                    len(one.acknowledged) > count + 5
                    for one, count in zip(writers, counts, strict=True)
                )
            )
            if not number:
                assert client.delete(f"{CONFIG_MAPS}/gone").status == 200
    assert [one.failures for one in writers] == [[]] * 2
    written = {name for one in writers for name in one.acknowledged}
    items = client.get(CONFIG_MAPS).json["items"]
    found = {item["metadata"]["name"]: item for item in items}
    assert written <= set(found)
    assert "gone" not in found
    assert int(found[min(written)]["metadata"]["resourceVersion"]) < 1 << 53


def test_watches_list_again_at_a_shard_on_etcd(mixed: Fleet) -> None:
    client = make_on(mixed, "watched", "root")
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "one"}}).status == 201
    version = client.get(CONFIG_MAPS).json["metadata"]["resourceVersion"]
    cluster = cluster_of(client)
    migrate(mixed, "watched", cluster, "shard-1")
    wait_for_phase(mixed, "watched", "Completed")
    expired = client.get(CONFIG_MAPS, watch="1", resourceVersion=version)
    assert b'"code":410' in expired.body.replace(b" ", b""), expired
    listed = client.get(CONFIG_MAPS).json
    assert int(listed["metadata"]["resourceVersion"]) > int(version)
    stale = client.get(f"{CONFIG_MAPS}/one").json
    stale["metadata"]["resourceVersion"] = version
    stale["data"] = {"a": "1"}
    assert client.put(f"{CONFIG_MAPS}/one", stale).status == 409


def test_one_list_over_all_shards(mixed: Fleet) -> None:
    for shard in mixed.shards:
        client = make_on(mixed, f"listed-{shard}", shard)
        body = {"metadata": {"name": "listed", "labels": {"on": shard}}}
        assert client.post(CONFIG_MAPS, body).status == 201
    everything = mixed.client(user="shard-admin")
    everything.prefix = "/services/merged/clusters/*/api/v1/configmaps?labelSelector=on"

    def shards() -> set[str]:
        items = everything.get("").json.get("items", ())
        return {item["metadata"]["labels"]["on"] for item in items}

    assert eventually(lambda: shards() == set(mixed.shards))
    listed = everything.get("")
    body = {"metadata": {"name": "next", "labels": {"on": "later"}}}
    assert client.post(CONFIG_MAPS, body).status == 201
    everything.prefix = "/services/merged/clusters/*/api/v1/configmaps"
    version = listed.json["metadata"]["resourceVersion"]
    with closing(everything.watch("", labelSelector="on", resourceVersion=version)) as events:
        assert next(events)["object"]["metadata"]["name"] == "next"
