"""One list and one watch over all shards."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.migrations import (
    GATE,
    MIGRATIONS,
    bind_in_root,
    migrate,
    wait_for_phase,
)
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object
from pykcp.testing.sharded import Fleet, FleetProcess, free_ports
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, make_workspace

MAPS = "/api/v1/namespaces/default/configmaps"
MERGED = "/services/merged/clusters/*/api/v1/configmaps"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Masters pass the proxy, so that a test can read all logical clusters."""
    directory = pathlib.Path(tmp_path_factory.mktemp("fleet"))
    flags = ["--authentication-drop-groups=none"]
    found = Fleet(directory, proxy_flags=flags, shard_flags=[GATE])
    try:
        found.start()
        root = found.client(cluster="root")
        for shard in found.shards:
            where = {"selector": {"matchLabels": {"name": shard}}}
            make_workspace(root, f"on-{shard}", location=where)
        yield found
    finally:
        found.stop()


@pytest.fixture
def everything(two: Fleet) -> TestClient:
    """All logical clusters of all shards."""
    client = two.client(user="shard-admin")
    client.prefix = MERGED
    eventually(lambda: client.get("", limit=1).status == 200)  # revisions can be compared
    return client


def inside(two: Fleet, shard: str) -> TestClient:
    return two.client(cluster=f"root:on-{shard}")


def made(two: Fleet, shard: str, name: str, **labels: str) -> Any:
    body = {"metadata": {"name": name, "labels": labels}}
    reply = inside(two, shard).post(MAPS, body)
    assert reply.status == 201, reply
    return reply.json


def names(reply: Any) -> list[str]:
    assert reply.status == 200, reply
    return [item["metadata"]["name"] for item in reply.json["items"]]


def test_a_list_of_all_shards(two: Fleet, everything: TestClient) -> None:
    for shard in two.shards:
        made(two, shard, f"listed-{shard}", test="list")
    reply = everything.get("", labelSelector="test=list")
    assert sorted(names(reply)) == ["listed-root", "listed-shard-1"]
    assert reply.json["kind"] == "ConfigMapList"
    newest = max(int(item["metadata"]["resourceVersion"]) for item in reply.json["items"])
    assert int(reply.json["metadata"]["resourceVersion"]) >= newest


def test_pages(two: Fleet, everything: TestClient) -> None:
    wanted = set()
    for number in range(6):
        shard = two.shards[number % 2]
        wanted.add(made(two, shard, f"page-{number}", test="pages")["metadata"]["name"])
    seen: list[str] = []
    token, versions = "", set()
    for _ in range(10):
        reply = everything.get("", labelSelector="test=pages", limit=2, **{"continue": token})
        seen += names(reply)
        versions.add(reply.json["metadata"]["resourceVersion"])
        if len(seen) == 2:  # what comes later is not part of the list
            made(two, "shard-1", "page-z", test="pages")
        token = reply.json["metadata"].get("continue", "")
        if not token:
            break
    assert sorted(seen) == sorted(wanted)
    assert len(versions) == 1


def test_pages_of_large_objects_are_smaller(two: Fleet, everything: TestClient) -> None:
    """However much a client asks for, a proxy holds some megabytes of it at a time."""
    wanted = [f"large-{number:02}" for number in range(12)]
    for number, name in enumerate(wanted):
        body = {"metadata": {"name": name, "labels": {"test": "large"}}}
        filled = {**body, "data": {"text": "x" * 900_000}}
        assert inside(two, two.shards[number % 2]).post(MAPS, filled).status == 201
    assert sorted(names(everything.get("", labelSelector="test=large"))) == wanted
    reply = everything.get("", labelSelector="test=large", limit=100_000)
    assert sorted(names(reply)) == wanted
    assert "continue" not in reply.json["metadata"]
    first = everything.get("", labelSelector="test=large", limit=11)
    assert len(names(first)) == 11
    assert first.json["metadata"]["continue"]


def test_a_watch_of_all_shards_is_ordered_and_resumable(two: Fleet, everything: TestClient) -> None:
    start = everything.get("", labelSelector="test=watch").json["metadata"]["resourceVersion"]
    for number in range(10):
        made(two, two.shards[number % 2], f"watched-{number}", test="watch")
    query = {"labelSelector": "test=watch", "timeoutSeconds": 60}
    events = take(everything, 10, resourceVersion=start, **query)
    assert [event["type"] for event in events] == ["ADDED"] * 10
    assert [e["object"]["metadata"]["name"] for e in events] == [f"watched-{n}" for n in range(10)]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    rest = take(everything, 6, resourceVersion=versions[3], **query)
    assert rest == events[4:]


def test_what_moves_is_not_deleted(two: Fleet, everything: TestClient) -> None:
    """Its first shard removes it, but it exists on the other one."""
    client = make_on(two.client(cluster="root"), "shard-1", "wanders")
    cluster = client.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]
    bind_in_root(two, "migration.kcp.io", MIGRATIONS)

    def make(name: str) -> None:
        body = {"metadata": {"name": name, "labels": {"test": "move"}}}
        assert client.post(MAPS, body).status == 201

    names = {f"wanders-{number}" for number in range(400)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, names))
        followed = pool.submit(follow, everything, "test=move", "last")
        migrate(two, "wanders", cluster, "root")
        wait_for_phase(two, "wanders", "Completed")
        make("last")
        assert followed.result(60) == {*names, "last"}


def test_what_moves_is_listed_once(two: Fleet, everything: TestClient) -> None:
    """Its first shard still has it when the other one serves it, and removes it bit by bit."""
    client = make_on(two.client(cluster="root"), "root", "listed-once")
    cluster = client.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]
    bind_in_root(two, "migration.kcp.io", MIGRATIONS)
    wanted = [f"once-{number:04}" for number in range(600)]

    def make(name: str) -> None:
        body = {"metadata": {"name": name, "labels": {"test": "once"}}}
        assert client.post(MAPS, body).status == 201

    is_over = threading.Event()

    def keep_listing() -> tuple[int, list[list[str]]]:
        """How many lists there were, and those that are wrong."""
        reader = two.client(user="shard-admin")
        reader.prefix = MERGED
        count, wrong = 0, list[list[str]]()
        while not is_over.is_set():
            found = sorted(names(reader.get("", labelSelector="test=once")))
            count += 1
            if found != wanted:
                wrong.append(found)
        return count, wrong

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, wanted))
        readers = [pool.submit(keep_listing) for _ in range(2)]
        try:
            for number, shard in enumerate(("shard-1", "root") * 2):
                migrate(two, f"once-{number}", cluster, shard)
                wait_for_phase(two, f"once-{number}", "Completed")
        finally:
            is_over.set()
        for reader in readers:
            count, wrong = reader.result(60)
            assert count > 5
            assert [(len(found), len(set(found))) for found in wrong] == []


def follow(client: TestClient, selector: str, last: str) -> set[str]:
    """As an informer does it, until an object comes; the names that it has then."""
    while True:
        listed = client.get("", labelSelector=selector).json
        held = {one["metadata"]["name"] for one in listed["items"]}
        version = listed["metadata"]["resourceVersion"]
        for event in client.watch("", labelSelector=selector, resourceVersion=version):
            if event["type"] == "ERROR":
                break  # it lists again
            name = event["object"]["metadata"]["name"]
            (held.discard if event["type"] == "DELETED" else held.add)(name)
            if name == last:
                return held


def test_a_watch_ends_when_a_shard_joins(two: Fleet, everything: TestClient) -> None:
    """Clients list again, since what the shard has already is no event."""
    start = everything.get("", labelSelector="test=join").json["metadata"]["resourceVersion"]
    stream = everything.watch("", labelSelector="test=join", resourceVersion=start)
    made(two, two.shards[0], "before-it-joins", test="join")
    assert next(stream)["type"] == "ADDED"
    root, url = two.client("root", "root"), "https://127.0.0.1:1"
    shard = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "Shard",
        "metadata": {"name": "joins"},
        "spec": {"baseURL": url, "externalURL": url, "virtualWorkspaceURL": url},
    }
    shards = "/apis/core.kcp.io/v1alpha1/shards"
    assert root.post(shards, shard).status == 201
    try:
        ended = next(stream)
        assert (ended["type"], ended["object"]["code"]) == ("ERROR", 410)
        assert list(stream) == []
    finally:
        assert root.delete(f"{shards}/joins").status == 200
    eventually(lambda: everything.get("").status == 200)


def take(client: TestClient, count: int, **query: Any) -> list[Any]:
    stream = client.watch("", **query)
    try:
        return [next(stream) for _ in range(count)]
    finally:
        stream.close()


def test_a_streamed_list(two: Fleet, everything: TestClient) -> None:
    for shard in two.shards:
        made(two, shard, f"streamed-{shard}", test="stream")
    query = {
        "labelSelector": "test=stream",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    events = take(everything, 3, **query)
    assert {e["object"]["metadata"]["name"] for e in events[:2]} == {
        "streamed-root",
        "streamed-shard-1",
    }
    assert events[0]["object"]["kind"] == "ConfigMap"
    assert events[2]["type"] == "BOOKMARK"
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_every_shard_authorizes(two: Fleet, everything: TestClient) -> None:
    admin = two.client()
    admin.prefix = MERGED
    assert admin.get("").status == 403
    assert admin.get("", watch="true").status == 403
    assert everything.post("", {}).status == 405
    assert everything.get("", limit="x").status == 400
    assert everything.get("", **{"continue": "x"}).status == 400


def test_a_dead_shard_is_named(two: Fleet, everything: TestClient) -> None:
    two["shard-1"].kill()
    try:
        reply = everything.get("")
        assert reply.status == 503
        assert "shard-1" in reply.json["message"]
        rest = everything.get("", partial="true")
        assert "missing: shard-1" in (rest.header("warning") or "")
        shards = {item["metadata"]["annotations"]["kcp.io/cluster"] for item in rest.json["items"]}
        assert "root" in shards
        page = everything.get("", partial="true", limit=1)
        token = page.json["metadata"]["continue"]
        following = everything.get("", partial="true", limit=1, **{"continue": token})
        assert "missing: shard-1" in (following.header("warning") or "")
        assert everything.get("", watch="true", partial="true").status == 503
    finally:
        two["shard-1"].start()
    assert everything.get("", partial="true").header("warning") is None
    assert eventually(lambda: everything.get("", limit=1).status == 200)


def test_the_tree_of_all_shards(two: Fleet) -> None:
    root = two.client(cluster="root")
    top = make_on(root, "root", "tree")
    make_on(make_on(top, "shard-1", "a"), "root", "deep")
    make_on(top, "root", "b")
    client = two.client()
    client.prefix = "/services/merged/tree/clusters/"
    reply = client.get("root:tree")
    assert reply.status == 200, reply
    found = [(item["path"], item["children"]) for item in reply.json["items"]]
    assert found == [("root:tree:a", 1), ("root:tree:a:deep", 0), ("root:tree:b", 0)]
    assert reply.json["path"] == "root:tree"
    shallow = client.get("root:tree", depth=1).json["items"]
    assert [item["name"] for item in shallow] == ["a", "b"]
    assert client.get("root:nowhere").status == 403
    assert client.get("root:tree", limit=1).status == 400


def make_on(parent: TestClient, shard: str, name: str) -> TestClient:
    make_workspace(parent, name, location={"selector": {"matchLabels": {"name": shard}}})
    path = parent.prefix.removeprefix("/clusters/")
    return parent.in_cluster(f"{path}:{name}")


def second_proxy(two: Fleet) -> FleetProcess:
    """Another front-proxy with the same settings, at a port of its own."""
    first = two["front-proxy"].member
    (port,) = free_ports(1)
    words = [
        f"--secure-port={port}"
        if word.startswith("--secure-port=")
        else f"{word}-2"
        if word.startswith("--root-directory=")
        else word
        for word in first.words
    ]
    member = first._replace(name="front-proxy-2", words=tuple(words), port=port)
    return FleetProcess(member, two.files)


def test_nothing_is_missed_when_a_proxy_dies(two: Fleet, everything: TestClient) -> None:
    """Writers on both shards; the watch goes on at another proxy from the last event."""
    other = second_proxy(two)
    other.start()
    two.processes["front-proxy-2"] = other
    elsewhere = two.client("front-proxy-2", user="shard-admin")
    elsewhere.prefix = MERGED
    query = {"labelSelector": "test=faults"}
    seen: list[tuple[int, str]] = []
    version = everything.get("", **query).json["metadata"]["resourceVersion"]
    try:
        with ThreadPoolExecutor(2) as pool:
            writers = [pool.submit(write_many, two, shard) for shard in two.shards]
            stream = everything.watch("", resourceVersion=version, **query)
            while len(seen) < 15:
                seen.append(event_of(next(stream)))
            two["front-proxy"].kill()
            stream.close()
            stream = elsewhere.watch("", resourceVersion=seen[-1][0], **query)
            while len(seen) < 2 * COUNT:
                seen.append(event_of(next(stream)))
            stream.close()
            acknowledged = {name for writer in writers for name in writer.result()}
        assert [name for _, name in seen] == [name for _, name in sorted(seen)]
        assert len(seen) == len({name for _, name in seen})
        assert {name for _, name in seen} == acknowledged
    finally:
        two["front-proxy"].start()
        del two.processes["front-proxy-2"]
        other.stop()


COUNT = 40


def write_many(two: Fleet, shard: str) -> list[str]:
    """At the shard itself: the proxy is killed meanwhile."""
    cluster = two.client("root", "root").get(f"{WORKSPACES}/on-{shard}").json["spec"]["cluster"]
    client = two.client(shard, cluster)
    names = []
    for number in range(COUNT):
        name = f"{shard}-{number}"
        body = {"metadata": {"name": name, "labels": {"test": "faults"}}}
        assert client.post(MAPS, body).status == 201
        names.append(name)
    return names


def event_of(event: Any) -> tuple[int, str]:
    assert event["type"] == "ADDED", event
    metadata = event["object"]["metadata"]
    return int(metadata["resourceVersion"]), metadata["name"]


def test_services_about_one_workspace_are_served_by_its_shard(two: Fleet) -> None:
    client = two.client(user="shard-admin")
    for shard in two.shards:
        made(two, shard, f"used-{shard}")
        client.prefix = f"/services/usage/clusters/root:on-{shard}"
        found = client.get("/apis/usage.pykcp.dev/v1alpha1/resourceusages")
        assert found.status == 200, found
        assert "configmaps" in [item["metadata"]["name"] for item in found.json["items"]]
        client.prefix = f"/services/access/clusters/root:on-{shard}"
        kind = {"apiVersion": "access.pykcp.dev/v1alpha1", "kind": "AccessExplanation"}
        spec = {"user": "u", "resourceAttributes": {"verb": "list", "resource": "configmaps"}}
        path = "/apis/access.pykcp.dev/v1alpha1/accessexplanations"
        answer = client.post(path, {**kind, "spec": spec})
        assert answer.status == 201, answer
        assert "the user has no access to the workspace" in answer.json["status"]["message"]


def test_the_view_of_a_syncer_is_served_by_the_shard_of_its_cluster(two: Fleet) -> None:
    workspace = inside(two, "shard-1")
    bind_workload(workspace)
    created = workspace.post(CLUSTERS, cluster_object("east", mode="None"))
    assert created.status == 201, created
    metadata = created.json["metadata"]
    logical = metadata["annotations"]["kcp.io/cluster"]
    client = two.client(user="shard-admin")
    client.prefix = f"/services/syncer/{logical}/east/{metadata['uid']}/clusters/{logical}"
    assert client.get(f"{CLUSTERS}/east").status == 200
    assert client.get(f"{CLUSTERS}/west").status == 404
    assert names(client.get(MAPS)) == []
