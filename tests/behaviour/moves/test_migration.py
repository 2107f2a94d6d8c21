"""LogicalClusterMigration between two shards of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.histories import NotingWatcher, writing
from pykcp.testing.moving.migrations import (
    CONFIG_MAPS,
    GATE,
    MIGRATIONS,
    bind_migrations,
    cluster_of,
    holder,
    make_on,
    migrate,
    migration,
    phase,
    wait_for_phase,
)
from pykcp.testing.moving.provisioning import CLUSTERS, LIMIT, clusters_here, wanted
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), shard_flags=(GATE,)) as made:
        bind_migrations(made)
        yield made


def config_maps(client: TestClient) -> dict[str, dict[str, str]]:
    """Uid, version and data by name."""
    answer = client.get(CONFIG_MAPS)
    assert answer.status == 200, answer
    items = answer.json["items"]
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


def test_writers_and_watchers_do_not_notice(two: Fleet) -> None:
    client = make_on(two, "busy", "root")
    cluster = cluster_of(client)
    version = client.get(CONFIG_MAPS).json["metadata"]["resourceVersion"]
    watchers = [NotingWatcher(client, CONFIG_MAPS, version) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    with writing(lambda: two.client(cluster=cluster), CONFIG_MAPS, 4) as writers:
        eventually(lambda: all(len(one.acknowledged) > 20 for one in writers))
        migrate(two, "busy", cluster, "shard-1")
        wait_for_phase(two, "busy", "Completed")
        counts = [len(one.acknowledged) for one in writers]
        eventually(
            lambda: all(
                len(one.acknowledged) > count + 10
                for one, count in zip(writers, counts, strict=True)
            )
        )
    assert holder(two, cluster) == "shard-1"
    assert [one.failures for one in writers] == [[]] * 4
    written = {name: version for one in writers for name, version in one.acknowledged.items()}
    found = {name: one["version"] for name, one in config_maps(client).items()}
    assert {name: found.get(name) for name in written} == written
    for watcher in watchers:
        eventually(lambda watcher=watcher: set(written) <= set(watcher.names()))
        assert len(watcher.names()) == len(set(watcher.names()))
        assert {name: v for kind, name, v in watcher.seen if kind == "ADDED"}.items() >= (
            written.items()
        )
        versions = [int(version) for _, _, version in watcher.seen]
        assert versions == sorted(versions)
        assert not watcher.has_ended


def test_a_watch_that_was_interrupted_shortly_before_goes_on(two: Fleet) -> None:
    """What happened between its last event and the move has come along."""
    client = make_on(two, "interrupted", "root")
    cluster = cluster_of(client)
    for name in ("seen", "removed"):
        last = client.post(CONFIG_MAPS, {"metadata": {"name": name}})
        assert last.status == 201
    version = last.json["metadata"]["resourceVersion"]
    assert client.delete(f"{CONFIG_MAPS}/removed").status == 200
    assert client.patch(f"{CONFIG_MAPS}/seen", {"data": {"n": "1"}}).status == 200
    migrate(two, "interrupted", cluster, "shard-1")
    wait_for_phase(two, "interrupted", "Completed")
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "later"}}).status == 201
    events = client.watch(CONFIG_MAPS, resourceVersion=version)
    found = [next(events) for _ in range(3)]
    assert [(one["type"], one["object"]["metadata"].get("name")) for one in found] == [
        ("DELETED", "removed"),
        ("MODIFIED", "seen"),
        ("ADDED", "later"),
    ]


def test_it_comes_back(two: Fleet) -> None:
    client = make_on(two, "back", "root")
    cluster = cluster_of(client)
    for number in range(3):
        assert client.post(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}}).status == 201
    before = config_maps(client)
    for number, shard in enumerate(("shard-1", "root", "shard-1")):
        migrate(two, f"back-{number}", cluster, shard)
        wait_for_phase(two, f"back-{number}", "Completed")
        assert holder(two, cluster) == shard
        assert config_maps(client) == before
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "later"}}).status == 201


NAMES = [f"m{number}" for number in range(300)]


def test_it_comes_back_when_what_it_left_is_removed(two: Fleet) -> None:
    """Until then it looks as if it were there."""
    client = make_on(two, "at-once", "root")
    cluster = cluster_of(client)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: client.post(CONFIG_MAPS, {"metadata": {"name": n}}), NAMES))
    migrate(two, "there", cluster, "shard-1")
    eventually(lambda: holder(two, cluster) == "shard-1")
    migrate(two, "and-back", cluster, "root")
    wait_for_phase(two, "and-back", "Completed")
    assert holder(two, cluster) == "root"
    assert len(config_maps(client)) == 301
    wait_for_phase(two, "there", "Completed")
    migrate(two, "once-more", cluster, "shard-1")
    wait_for_phase(two, "once-more", "Completed")
    assert holder(two, cluster) == "shard-1"


def test_deleting_the_migration_cancels_it(two: Fleet) -> None:
    client = make_on(two, "stays", "root")
    cluster = cluster_of(client)
    two["shard-1"].pause()  # the destination does not get on
    try:
        migrate(two, "stays", cluster, "shard-1")
        wait_for_phase(two, "stays", "Migrating")
        root = two.client("root", "root")
        assert root.delete(f"{MIGRATIONS}/stays").status == 200
        eventually(lambda: root.get(f"{MIGRATIONS}/stays").status == 404)
    finally:
        two["shard-1"].resume()
    assert holder(two, cluster) == "root"
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "later"}}).status == 201
    # Nothing is left of it: it can be moved again.
    migrate(two, "stays-again", cluster, "shard-1")
    wait_for_phase(two, "stays-again", "Completed")
    assert holder(two, cluster) == "shard-1"


def test_bad_destinations(two: Fleet) -> None:
    client = make_on(two, "nowhere", "root")
    for shard, text in (
        ("root", 'logical cluster is on shard "root" already'),
        ("shard-7", 'shard "shard-7" not found'),
    ):
        migrate(two, f"to-{shard}", cluster_of(client), shard)
        failed = wait_for_phase(two, f"to-{shard}", "Failed")
        (condition,) = failed["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == ("InvalidDestination", text)
    assert migration(two, "to-root")["metadata"].get("finalizers") in (None, [])


@pytest.mark.parametrize("cluster", ["root", "system:shard"])
def test_what_belongs_to_a_shard_stays(two: Fleet, cluster: str) -> None:
    name = cluster.replace(":", "-")
    migrate(two, f"never-{name}", cluster, "shard-1")
    failed = wait_for_phase(two, f"never-{name}", "Failed")
    (condition,) = failed["status"]["conditions"]
    assert condition["reason"] == "InvalidLogicalCluster"


def test_a_full_shard_takes_none(two: Fleet) -> None:
    client = make_on(two, "one-more", "root")
    path = "/apis/core.kcp.io/v1alpha1/shards/shard-1"
    root = two.client(cluster="root")
    assert root.patch(path, {"metadata": {"annotations": {LIMIT: "0"}}}).status == 200
    try:
        eventually(lambda: _seen_limit(two, LIMIT) == "0")
        migrate(two, "one-more", cluster_of(client), "shard-1")
        failed = wait_for_phase(two, "one-more", "Failed")
    finally:
        assert root.patch(path, {"metadata": {"annotations": {LIMIT: None}}}).status == 200
    found = {one["type"]: one for one in failed["status"]["conditions"]}["DataCopied"]
    assert found["reason"] == "DestinationFull"
    assert found["message"].startswith('shard "shard-1" has reached its limit of logical clusters')
    eventually(
        lambda: (
            "internal.kcp.io/migrating"
            not in client.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]
        )
    )
    assert client.post(CONFIG_MAPS, {"metadata": {"name": "later"}}).status == 201


def test_moves_and_births_together_do_not_exceed_the_limit(two: Fleet) -> None:
    moving = {f"crowd-{n}": cluster_of(make_on(two, f"crowd-{n}", "root")) for n in range(4)}
    root, path = two.client(cluster="root"), "/apis/core.kcp.io/v1alpha1/shards/shard-1"
    shard = two.client("shard-1")
    before = clusters_here(shard)
    room = str(before + 3)
    assert root.patch(path, {"metadata": {"annotations": {LIMIT: room}}}).status == 200
    try:
        eventually(lambda: _seen_limit(two, LIMIT) == room)
        with ThreadPoolExecutor(8) as pool:
            for name, cluster in moving.items():
                migrate(two, name, cluster, "shard-1")
            asked = (wanted(f"born{n}") for n in range(8))
            births = Counter(pool.map(lambda one: shard.post(CLUSTERS, one).status, asked))
        ended = ("Completed", "Failed")
        eventually(lambda: all(phase(two, name) in ended for name in moving))
    finally:
        assert root.patch(path, {"metadata": {"annotations": {LIMIT: None}}}).status == 200
    moved = [name for name in moving if phase(two, name) == "Completed"]
    assert len(moved) + births[201] == 3
    assert set(births) <= {201, 429}
    assert clusters_here(shard) == before + 3
    assert [holder(two, cluster) for cluster in moving.values()].count("shard-1") == len(moved)


def _seen_limit(two: Fleet, limit: str) -> str | None:
    """As the destination sees it, through the cache."""
    path = "/services/cache/shards/root/clusters/root/apis/core.kcp.io/v1alpha1/shards/shard-1"
    cache = two.client("cache")
    cache.prefix = ""
    found = cache.get(path)
    assert found.status == 200, found
    text: str | None = (found.json["metadata"].get("annotations") or {}).get(limit)
    return text


@pytest.mark.parametrize("action", ["copy", "changes", "hold", "give", "state", "look"])
def test_only_shards_may_ask(two: Fleet, action: str) -> None:
    body = {"cluster": "root", "migration": "root:x", "shard": "shard-1"}
    for user in ("kcp-admin",):
        refused = two.client("root", user=user)
        refused.prefix = ""
        assert refused.post(f"/services/moving/{action}", body).status == 403
    admin = two.client("root")
    admin.prefix = ""
    if action != "look":
        assert admin.post(f"/services/moving/{action}", body).json["reason"] == "NotMigrating"
    assert admin.post(f"/services/moving/{action}", {"cluster": "*"}).status == 400
    assert admin.get(f"/services/moving/{action}").status == 405
