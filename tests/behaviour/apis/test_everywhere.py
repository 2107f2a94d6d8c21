"""Metadata of a resource over all clusters, wherever they have it from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.apis import COWBOYS, bind_cowboys, cowboy
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVERYWHERE = "/apis/wild.west/v1/cowboys"
ONE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
DEFINITION = {
    "metadata": {"name": "cowboys.wild.west"},
    "spec": {
        "group": "wild.west",
        "scope": "Namespaced",
        "names": {"plural": "cowboys", "kind": "Cowboy"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    """A server on which nobody else has cowboys."""
    with server() as process:
        yield process


def _names(client: TestClient) -> list[str]:
    found = client.get(EVERYWHERE, accept=LIST)
    return [item["metadata"]["name"] for item in found.json.get("items", ())]


def test_bound_and_own_objects_are_listed_and_watched_together(shard: ServerProcess) -> None:
    star = shard.client(cluster="*")
    first, second = make_cluster(shard, "provider-a"), make_cluster(shard, "provider-b")
    users = [make_cluster(shard, f"user-{letter}") for letter in "abc"]
    assert star.get(EVERYWHERE, accept=LIST).status == 404
    bind_cowboys(first, users[0])
    users[0].post(COWBOYS, cowboy("a"))
    assert _names(star) == ["a"]
    since = star.get(EVERYWHERE, accept=LIST).json["metadata"]["resourceVersion"]
    live = star.watch(EVERYWHERE, accept=ONE)
    assert next(live)["object"]["metadata"]["name"] == "a"
    bind_cowboys(second, users[1])
    assert users[1].post(COWBOYS, cowboy("b")).status == 201
    assert users[2].post(CRDS, DEFINITION).status == 201
    eventually(lambda: users[2].post(COWBOYS, cowboy("c")).status == 201)
    assert sorted(_names(star)) == ["a", "b", "c"]
    assert [next(live)["object"]["metadata"]["name"] for _ in "bc"] == ["b", "c"]
    late = star.watch(EVERYWHERE, accept=ONE, resourceVersion=since)
    assert [next(late)["object"]["metadata"]["name"] for _ in "bc"] == ["b", "c"]
    users[1].delete(f"{COWBOYS}/b")
    assert next(live)["type"] == next(late)["type"] == "DELETED"
