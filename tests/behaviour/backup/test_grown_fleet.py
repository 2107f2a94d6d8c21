"""Shards whose stores go back, in an installation that has grown since."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
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
from pykcp.testing.programs import kcp
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, make_workspace

pytestmark = pytest.mark.slow
LAST = "shard-2"


@pytest.fixture
def growing(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    """Two shards of three run."""
    made = Fleet(tmp_path / "fleet", 3, (GATE,))
    try:
        made.start(without=(LAST,))
        bind_migrations(made)
        yield made
    finally:
        made.stop()


def make_map_on(growing: Fleet, shard: str) -> TestClient:
    where = {"selector": {"matchLabels": {"name": shard}}}
    made = make_workspace(growing.client(cluster="root"), f"of-{shard}", location=where)
    client = growing.client(cluster=made["spec"]["cluster"])
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "before"}}).status == 201
    return client


def move_all_to_the_last(growing: Fleet, backup: pathlib.Path) -> dict[str, TestClient]:
    """A backup of two shards, then a logical cluster of each moves to the third, which is new."""
    moving = {shard: make_map_on(growing, shard) for shard in ("root", "shard-1")}
    root = growing.files.directory
    assert kcp("backup", f"--root-directory={root}", f"--to={backup}")[0] == 0
    growing[LAST].start()
    eventually(lambda: LAST in shards_of(growing))
    for shard, client in moving.items():
        migrate(growing, f"from-{shard}", cluster_of(client), LAST)
        wait_for_phase(growing, f"from-{shard}", "Completed")
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "after"}}).status == 201
    return moving


def assert_given_up(growing: Fleet, shard: str, cluster: str) -> None:
    """Neither the backup nor the root shard that comes from it knows the new shard."""
    assert f"logical cluster {cluster} is on shard {LAST} now" in growing[shard].log()
    assert growing.client(shard, cluster).get(LOGICAL_CLUSTER).status != 200
    found = growing.client(LAST, cluster).get(CONFIG_MAPS).json["items"]
    assert {"before", "after"} <= {one["metadata"]["name"] for one in found}


def test_what_has_moved_to_a_shard_that_joined_later(
    growing: Fleet, tmp_path: pathlib.Path
) -> None:
    root, backup = growing.files.directory, tmp_path / "backup"
    moving = move_all_to_the_last(growing, backup)
    for shard, client in moving.items():  # two at once would wait for each other
        growing[shard].stop()
        flags = (f"--from={backup}", f"--root-directory={root}", f"--member={shard}", "--replace")
        code, text = kcp("restore", *flags)
        assert code == 0, text
        growing[shard].start()
        assert_given_up(growing, shard, cluster_of(client))
    # The root shard does not know it until it registers again.
    assert f"shards {LAST} joined after this state of root: restart them" in growing["root"].log()
    assert LAST not in shards_of(growing)
    assert growing[LAST].stop() == 0
    growing[LAST].start()
    eventually(lambda: LAST in shards_of(growing))
    assert moving["root"].get(LOGICAL_CLUSTER).status == 200


def test_shards_that_are_restored_together(growing: Fleet, tmp_path: pathlib.Path) -> None:
    """As those of one host: they ask the shards of other hosts, and not each other."""
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    moving = move_all_to_the_last(growing, backup)
    code, text = kcp("restore", f"--from={backup}", f"--root-directory={restored}")
    assert code == 0, text
    for shard in moving:
        growing[shard].stop()
        shutil.rmtree(growing[shard].root)
        (restored / shard).rename(growing[shard].root)
    for shard in moving:
        growing[shard].launch()
    for shard, client in moving.items():
        growing[shard].wait_until_ready()
        assert_given_up(growing, shard, cluster_of(client))


def shards_of(growing: Fleet) -> set[str]:
    found = growing.client(cluster="root").get("/apis/core.kcp.io/v1alpha1/shards").json["items"]
    return {one["metadata"]["name"] for one in found}


def test_a_root_shard_waits_for_the_cache(growing: Fleet, tmp_path: pathlib.Path) -> None:
    root, backup = growing.files.directory, tmp_path / "backup"
    make_map_on(growing, "root")
    assert kcp("backup", f"--root-directory={root}", f"--to={backup}")[0] == 0
    growing["root"].stop()
    flags = (f"--from={backup}", f"--root-directory={root}", "--member=root", "--replace")
    assert kcp("restore", *flags)[0] == 0
    growing["cache"].kill()
    growing["root"].launch()
    eventually(lambda: "waiting for the cache server to say" in growing["root"].log())
    assert not growing["root"].is_ready()
    growing["cache"].start()
    growing["root"].wait_until_ready()


def test_an_old_copy_of_the_file_is_noticed(tmp_path: pathlib.Path) -> None:
    with fleet(tmp_path / "fleet", shard_flags=(GATE,)) as two:
        bind_migrations(two)
        stays, goes = make_on(two, "stays", "shard-1"), make_on(two, "goes", "shard-1")
        for client in (stays, goes):
            assert client.post(CONFIG_MAPS, {"metadata": {"name": "before"}}).status == 201
        shard, copy = two["shard-1"], tmp_path / "copy"
        shard.stop()
        shutil.copytree(shard.root, copy)
        shard.start()
        assert "went back" not in shard.log()
        version = stays.get(CONFIG_MAPS).json["metadata"]["resourceVersion"]
        migrate(two, "move", cluster_of(goes), "root")
        wait_for_phase(two, "move", "Completed")
        lost = stays.post(CONFIG_MAPS, {"metadata": {"name": "lost"}}).json
        published = "/services/cache/shards/shard-1/clusters/system:shard/apis/core.kcp.io/v1alpha1"
        cache = two.client("cache")
        cache.prefix = published

        def is_published() -> bool:
            found = cache.get("/shards/shard-1").json["metadata"]["annotations"]
            at = int(found["cache.kcp.io/original-resource-version"])
            return at > int(lost["metadata"]["resourceVersion"])

        eventually(is_published)
        shard.stop()
        shutil.rmtree(shard.root)
        shutil.copytree(copy, shard.root)
        shard.start()
        assert "it went back" in shard.log()
        assert holder(two, cluster_of(goes)) == "root"
        names = [i["metadata"]["name"] for i in stays.get(CONFIG_MAPS).json["items"]]
        assert names == ["before", "kube-root-ca.crt"]
        # Clients that know what was lost list again.
        expired = stays.get(CONFIG_MAPS, watch="1", resourceVersion=version)
        assert b'"code":410' in expired.body.replace(b" ", b""), expired
        shard.stop()
        shard.start()
        assert shard.log().count("it went back") == 1
