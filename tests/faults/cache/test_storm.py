"""Shards and their cache server are killed, stopped and emptied at random while exports come and go.

At the end the cache has exactly the exports that there are, and every shard knows them.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pykcp.testing.apis import BINDINGS, EXPORTS, binding, export
from pykcp.testing.caches import CacheProcess, cache_server
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

CACHED = "/apis/apis.kcp.io/v1alpha2/apiexports"
CLUSTERS = 3
SECONDS = 60.0


class Fleet:
    def __init__(self, cache: CacheProcess, shards: dict[str, ServerProcess]) -> None:
        self.cache, self.shards = cache, shards
        self.exports: dict[str, set[tuple[str, str]]] = {name: set() for name in shards}
        """Cluster and name of the exports of each shard."""
        for name, shard in shards.items():
            for number in range(CLUSTERS):
                make_cluster(shard, f"{name}{number}")
            make_cluster(shard, f"consumer-{name}")

    def client(self, shard: str, cluster: str) -> TestClient:
        return self.shards[shard].client(cluster=cluster)

    def write(self, chance: random.Random, count: int) -> None:
        for _ in range(count):
            shard = chance.choice(sorted(self.shards))
            known = self.exports[shard]
            if known and chance.random() < 0.4:
                cluster, name = chance.choice(sorted(known))
                gone = self.client(shard, cluster).delete(f"{EXPORTS}/{name}")
                assert gone.status == 200, gone
                known.discard((cluster, name))
            else:
                cluster, name = f"{shard}{chance.randrange(CLUSTERS)}", f"e{chance.getrandbits(40)}"
                made = self.client(shard, cluster).post(EXPORTS, export(name))
                assert made.status == 201, made
                known.add((cluster, name))

    def strike(self, chance: random.Random) -> None:
        """Something fails; writes go on; it is back."""
        match chance.choice(("cache", "wipe", "stop", "shard", "both")):
            case "cache":
                self.cache.kill()
                self.write(chance, 4)
                self.cache.start()
            case "wipe":
                self.cache.kill()
                self.write(chance, 4)
                self.cache.wipe()
                self.cache.start()
            case "stop":
                os.kill(self.cache.pid, signal.SIGSTOP)
                self.write(chance, 4)
                os.kill(self.cache.pid, signal.SIGCONT)
            case "shard":
                shard = self.shards[chance.choice(sorted(self.shards))]
                shard.kill()
                shard.start()
            case "both":
                shard = self.shards[chance.choice(sorted(self.shards))]
                shard.kill()
                self.cache.kill()
                self.cache.wipe()
                shard.start()
                self.write(chance, 4)
                self.cache.start()

    def published(self) -> dict[str, set[tuple[str, str]]]:
        found: dict[str, set[tuple[str, str]]] = {name: set() for name in self.shards}
        for item in self.cache.get(CACHED)["items"]:
            annotations = item["metadata"]["annotations"]
            place = (annotations["kcp.io/cluster"], item["metadata"]["name"])
            if not place[0].startswith("root"):
                found[annotations["kcp.io/shard"]].add(place)
        return found

    def is_known(self, shard: str, cluster: str, name: str) -> bool:
        consumer = self.client(shard, f"consumer-{shard}")
        made = consumer.post(f"{BINDINGS}?dryRun=All", binding("x", name, cluster))
        return made.status == 201


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        cache = stack.enter_context(cache_server(tmp_path / "server"))
        shards = {}
        for name in ("alpha", "beta"):
            (tmp_path / name).mkdir()
            flags = (f"--shard-name={name}", f"--cache-kubeconfig={cache.kubeconfig}")
            shards[name] = stack.enter_context(server(*flags, directory=tmp_path / name))
        yield Fleet(cache, shards)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_or_left_behind(fleet: Fleet, seed: int) -> None:
    chance = random.Random(seed)
    ever: set[tuple[str, str, str]] = set()
    for _ in range(6):
        fleet.write(chance, 6)
        ever |= {(s, *place) for s, known in fleet.exports.items() for place in known}
        fleet.strike(chance)
        ever |= {(s, *place) for s, known in fleet.exports.items() for place in known}
    eventually(lambda: fleet.published() == fleet.exports, SECONDS)
    for shard, cluster, name in sorted(ever):
        for other in fleet.shards:
            expected = (cluster, name) in fleet.exports[shard]
            eventually(lambda: fleet.is_known(other, cluster, name) == expected, SECONDS)  # noqa: B023
