"""A crash in the middle: what was begun is finished after the restart."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, schema
from pykcp.testing.binding import COWBOYS, bind, cowboy, is_bound, made, offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

CONSUMERS = 15
NEWER = "v2.cowboys.wild.west"


def _schema_of(client: TestClient) -> str:
    status = client.get(f"{BINDINGS}/cowboys").json["status"]
    name: str = status["boundResources"][0]["schema"]["name"]
    return name


def _crash(shard: ServerProcess) -> list[TestClient]:
    """Kill it and start it again; clients of the provider and of all consumers."""
    shard.kill()
    shard.start()
    names = ["provider", *(f"consumer{i}" for i in range(CONSUMERS))]
    return [shard.client(cluster=name) for name in names]


def test_kill_and_start_again() -> None:
    """While bindings are made, while a schema is rolled out, while bindings go."""
    with server() as shard, ThreadPoolExecutor(8) as pool:
        provider = make_cluster(shard, "provider")
        offer(provider)
        consumers = list(pool.map(lambda i: make_cluster(shard, f"consumer{i}"), range(CONSUMERS)))
        list(pool.map(lambda client: bind(client, provider), consumers))
        provider, *consumers = _crash(shard)
        for client in consumers:
            eventually(lambda c=client: is_bound(c), 30)
        for client in consumers:
            made(client, COWBOYS, cowboy())

        made(provider, SCHEMAS, schema(NEWER))
        change = {"spec": {"resources": [{**RESOURCE, "schema": NEWER}]}}
        assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
        _, *consumers = _crash(shard)
        for client in consumers:
            eventually(lambda c=client: _schema_of(c) == NEWER, 30)
            assert client.get(f"{COWBOYS}/jesse").status == 200

        for client in consumers:
            assert client.delete(f"{BINDINGS}/cowboys").status == 200
        _, *consumers = _crash(shard)
        for client in consumers:
            eventually(lambda c=client: c.get(f"{BINDINGS}/cowboys").status == 404, 30)
        with sqlite3.connect(f"file:{shard.root / 'store.db'}?mode=ro", uri=True) as store:
            left = "SELECT count(*) FROM current WHERE deleted = 0 AND key LIKE 'wild.west/%'"
            assert store.execute(left).fetchone() == (0,)
