"""A shard joins: lists over all shards from before it cannot be followed any more."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.migrations import CONFIG_MAPS
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import make_workspace

MERGED = "/services/merged/clusters/*/api/v1/configmaps"
LAST = "shard-2"


@pytest.fixture
def growing(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    """Two shards of three run; masters pass the proxy, so that a test can read everything."""
    made = Fleet(tmp_path / "fleet", 3, proxy_flags=["--authentication-drop-groups=none"])
    try:
        made.start(without=(LAST,))
        yield made
    finally:
        made.stop()


def everything(fleet: Fleet) -> TestClient:
    client = fleet.client(user="shard-admin")
    client.prefix = MERGED
    return client


def version_of_all(fleet: Fleet) -> str:
    """Of a list over all shards, as soon as their revisions can be compared."""
    listed = eventually(lambda: (found := everything(fleet).get("")).status == 200 and found)
    version: str = listed.json["metadata"]["resourceVersion"]
    return version


def assert_expired(fleet: Fleet, version: str) -> None:
    with closing(everything(fleet).watch("", resourceVersion=version)) as stream:
        event = next(stream)
    assert event["type"] == "ERROR", event
    status = event["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")


def make_on(fleet: Fleet, name: str, shard: str) -> TestClient:
    where = {"selector": {"matchLabels": {"name": shard}}}
    make_workspace(fleet.client(cluster="root"), name, location=where)
    return fleet.client(cluster=f"root:{name}")


def make_map(client: TestClient, name: str) -> None:
    assert client.post(CONFIG_MAPS, {"metadata": {"name": name}}).status == 201


def test_a_watch_from_before_is_told_to_list_again(growing: Fleet) -> None:
    early = make_on(growing, "early", "shard-1")
    open_since = version_of_all(growing)
    stream = everything(growing).watch("", resourceVersion=open_since)
    make_map(early, "one")
    assert next(stream)["object"]["metadata"]["name"] == "one"
    growing[LAST].start()
    eventually(lambda: LAST in shards_of(growing))
    # The watch that was open meanwhile, then one that is opened again.
    event = next(stream)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert list(stream) == []
    version_of_all(growing)
    assert_expired(growing, open_since)
    # A list from now on has what the shard has, and can be followed.
    client = make_on(growing, "late", LAST)
    make_map(client, "two")
    since = version_of_all(growing)
    names = {one["metadata"]["name"] for one in everything(growing).get("").json["items"]}
    assert names >= {"one", "two"}
    with closing(everything(growing).watch("", resourceVersion=since)) as stream:
        make_map(client, "three")
        assert "three" in (event["object"]["metadata"]["name"] for event in stream)
    # The shard that has `root` remembers it.
    growing["root"].stop()
    growing["root"].start()
    version_of_all(growing)
    assert_expired(growing, open_since)
    with closing(everything(growing).watch("", resourceVersion=since)) as stream:
        assert "three" in (event["object"]["metadata"]["name"] for event in stream)


def shards_of(fleet: Fleet) -> set[str]:
    found = fleet.client("root", "root").get("/apis/core.kcp.io/v1alpha1/shards").json["items"]
    return {one["metadata"]["name"] for one in found}
