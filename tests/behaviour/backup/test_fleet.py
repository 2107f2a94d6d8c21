"""Installations of several shards: restored as a whole or in part, and upgraded one by one."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Iterator

import pytest

from pykcp.programs.sharded.members import FleetMember
from pykcp.storage.sqlite import files
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.histories import CountingWriter
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
from pykcp.testing.sharded import Fleet, FleetProcess, fleet, free_ports
from pykcp.testing.workspaces import WORKSPACES

pytestmark = pytest.mark.slow
OLD_SOURCE = os.environ.get("PYKCP_OLD_SOURCE", "")


@pytest.fixture
def two(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    with fleet(tmp_path / "fleet", shard_flags=(GATE,)) as made:
        bind_migrations(made)
        yield made


def test_a_shard_that_went_back_asks_the_others(two: Fleet, tmp_path: pathlib.Path) -> None:
    stays, goes = make_on(two, "stays", "shard-1"), make_on(two, "goes", "shard-1")
    for client in (stays, goes):
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "before"}}).status == 201
    root, backup = two.files.directory, tmp_path / "backup"
    code, text = kcp("backup", f"--root-directory={root}", f"--to={backup}")
    assert code == 0, text
    migrate(two, "move", cluster_of(goes), "root")
    wait_for_phase(two, "move", "Completed")
    for client in (stays, goes):
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "after"}}).status == 201

    two["shard-1"].stop()
    code, text = kcp(
        "restore", f"--from={backup}", f"--root-directory={root}", "--member=shard-1", "--replace"
    )
    assert code == 0, text
    assert "asks the other shards" in text
    two["shard-1"].start()
    # what stayed is as it was in the backup; what has moved is where it moved to
    names = [i["metadata"]["name"] for i in stays.get(CONFIG_MAPS).json["items"]]
    assert names == ["before", "kube-root-ca.crt"]
    assert holder(two, cluster_of(goes)) == "root"
    names = [i["metadata"]["name"] for i in goes.get(CONFIG_MAPS).json["items"]]
    assert names == ["after", "before", "kube-root-ca.crt"]
    assert "is on shard root now, and given up here" in two["shard-1"].log()
    assert not (root / "shard-1" / "restored.json").exists()
    # It goes on moving logical clusters, and is ready all the time.
    migrate(two, "move-too", cluster_of(stays), "root")
    wait_for_phase(two, "move-too", "Completed")
    assert two["shard-1"].is_ready()
    assert "failed" not in two["shard-1"].log()
    code, text = kcp("admin", "fsck", f"--root-directory={root / 'shard-1'}")
    assert code == 0, text


def test_a_shard_waits_for_the_others(two: Fleet, tmp_path: pathlib.Path) -> None:
    root, backup = two.files.directory, tmp_path / "backup"
    make_on(two, "kept", "shard-1")
    assert kcp("backup", f"--root-directory={root}", f"--to={backup}")[0] == 0
    two["shard-1"].stop()
    words = ("restore", f"--from={backup}", f"--root-directory={root}", "--member=shard-1")
    assert kcp(*words, "--replace")[0] == 0
    two["root"].kill()
    two["shard-1"].launch()
    eventually(lambda: "waiting for the root shard to say" in two["shard-1"].log())
    assert not two["shard-1"].is_ready()
    two["root"].start()
    two["shard-1"].wait_until_ready()


def test_the_whole_installation(tmp_path: pathlib.Path) -> None:
    directory, backup = tmp_path / "fleet", tmp_path / "backup.tar"
    with fleet(directory) as made:
        client = make_on(made, "one", "shard-1")
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "kept"}}).status == 201
        code, text = kcp("backup", f"--root-directory={directory}", f"--to={backup}")
        assert code == 0, text
        assert "root: saved" in text
        assert "shard-1: saved" in text
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "lost"}}).status == 201
        for process in reversed(made.processes.values()):
            process.stop()
        shutil.rmtree(directory)
        code, text = kcp("restore", f"--from={backup}", f"--root-directory={directory}")
        assert code == 0, text
        made.start()
        client.drop()
        names = [i["metadata"]["name"] for i in client.get(CONFIG_MAPS).json["items"]]
        assert names == ["kept", "kube-root-ca.crt"]
        # revisions go on, and so does everything else
        assert make_on(made, "two", "shard-1").get(CONFIG_MAPS).status == 200
        items = made.client(cluster="root").get(WORKSPACES).json["items"]
        assert [item["metadata"]["name"] for item in items] == ["one", "two"]


def test_a_workspace_comes_back_on_the_shard_of_its_parent(tmp_path: pathlib.Path) -> None:
    """Through the front-proxy, which finds the shards."""
    with fleet(tmp_path / "fleet") as made:
        client = make_on(made, "one", "shard-1")
        assert client.post(CONFIG_MAPS, {"metadata": {"name": "kept"}}).status == 201
        proxy = made.client()
        tree = proxy.get("/services/copies/clusters/root:one/tree").json
        (cluster,) = tree["clusters"]
        rows = proxy.get(f"/services/copies/clusters/root:one/rows?cluster={cluster}").json["rows"]
        service, body = "/services/copies/clusters/root", {"name": "copy", "tree": tree}
        begun = proxy.post(f"{service}/begin", {**body, "isNew": True}).json
        assert proxy.post(f"{service}/add", {"copy": begun["copy"], "rows": rows}).status == 200
        assert proxy.post(f"{service}/finish", {"copy": begun["copy"]}).status == 200
        copy = made.client(cluster="root:copy")
        names = [i["metadata"]["name"] for i in copy.get(CONFIG_MAPS).json["items"]]
        assert names == ["kept", "kube-root-ca.crt"]
        found = made.client(cluster="root").get(f"{WORKSPACES}/copy").json
        assert found["status"]["phase"] == "Ready"
        assert found["metadata"]["annotations"]["core.kcp.io/shard"] == "root"


def second_proxy(two: Fleet) -> FleetProcess:
    member = two["front-proxy"].member
    (port,) = free_ports(1)
    words = [
        f"--secure-port={port}"
        if word.startswith("--secure-port=")
        else f"{word}-2"
        if word.startswith("--root-directory=")
        else word
        for word in member.words
    ]
    made = FleetMember("front-proxy-2", member.program, member.module, words, port)
    process = FleetProcess(made, two.files)
    two.processes[made.name] = process
    return process


@pytest.fixture
def of_an_older_version(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    """The programs of `PYKCP_OLD_SOURCE`, a `src` directory of an older version, if it is set.

    Otherwise those of this version, whose stores are then made to look older.
    """
    made = Fleet(tmp_path / "fleet", 2, (GATE,))
    for process in made.processes.values():
        process.source = OLD_SOURCE
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.timeout(600)
def test_a_rolling_upgrade_under_load(of_an_older_version: Fleet) -> None:
    """Root shard, then shards, then proxies: a retry heals whatever fails, and nothing is lost."""
    two = of_an_older_version
    added = second_proxy(two)
    added.source = OLD_SOURCE
    added.start()
    clusters = [cluster_of(make_on(two, f"on-{shard}", shard)) for shard in two.shards]

    def through(proxy: str, cluster: str) -> TestClient:
        client = two.client(cluster=cluster)
        access = dataclasses.replace(client.access, port=two[proxy].member.port)
        return TestClient(access, cluster, two._opened)

    writers = [
        CountingWriter(through(proxy, cluster), CONFIG_MAPS, proxy)
        for cluster in clusters
        for proxy in ("front-proxy", "front-proxy-2")
    ]
    for one in writers:
        one.start()
    try:
        eventually(lambda: all(len(one.acknowledged) > 5 for one in writers))
        for name in ("root", "shard-1", "front-proxy", "front-proxy-2"):
            assert two[name].stop() == 0
            if name in two.shards and not OLD_SOURCE:
                as_of_the_first_version(two[name].root / "store.db")
            two[name].source = ""
            two[name].start()
            counts = [len(one.acknowledged) for one in writers]
            eventually(
                lambda before=counts: all(
                    len(w.acknowledged) > n for w, n in zip(writers, before, strict=True)
                ),
                60,
            )
    finally:
        for one in writers:
            one.stop()
    for number, cluster in enumerate(clusters):
        of_cluster = writers[2 * number : 2 * number + 2]
        written = {n: version for one in of_cluster for n, version in one.acknowledged.items()}
        items = two.client(cluster=cluster).get(CONFIG_MAPS).json["items"]
        found = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}
        assert {name: found.get(name) for name in written} == written
    for shard in two.shards:
        connection = sqlite3.connect(two[shard].root / "store.db")
        assert files.read_meta(connection, "schema") == files.SCHEMA_VERSION
        connection.close()


def as_of_the_first_version(path: pathlib.Path) -> None:
    """The file as an older program leaves it."""
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
    connection.execute("DELETE FROM meta WHERE name = 'lineage'")
    connection.commit()
    connection.close()
