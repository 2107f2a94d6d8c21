"""Shards with a cache server of its own process: what one publishes, the others use."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pykcp.testing.apis import BINDINGS, COWBOYS, EXPORTS, binding, cowboy
from pykcp.testing.binding import is_bound, offer
from pykcp.testing.caches import CacheProcess, cache_server
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster, name_of
from pykcp.testing.server import ServerProcess, server

CACHED_EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
CACHED_SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MARKS = "/apis/cache.kcp.io/v1alpha1/cachedobjects/part"

StartShard = Callable[..., ServerProcess]


class Fleet:
    """A cache server and the shards `alpha` and `beta`."""

    def __init__(self, cache: CacheProcess, alpha: ServerProcess, beta: ServerProcess) -> None:
        self.cache, self.alpha, self.beta = cache, alpha, beta
        self._clusters = 0

    def cluster(self, shard: ServerProcess) -> TestClient:
        self._clusters += 1
        return make_cluster(shard, f"cluster{self._clusters}")

    def offer(self, shard: ServerProcess) -> TestClient:
        """A logical cluster with an export that is published."""
        provider = self.cluster(shard)
        offer(provider)
        eventually(lambda: self.published(provider))
        return provider

    def published(self, provider: TestClient) -> set[str]:
        """The names of the exports of a logical cluster that are ready in the cache."""
        items = self.cache.get(CACHED_EXPORTS, cluster=name_of(provider))["items"]
        return {i["metadata"]["name"] for i in items if (i.get("status") or {}).get("identityHash")}

    def bind(self, shard: ServerProcess, provider: TestClient) -> TestClient:
        """A logical cluster with a binding to the export; bound."""
        consumer = self.cluster(shard)
        bind_to(consumer, provider)
        return consumer


def bind_to(consumer: TestClient, provider: TestClient) -> None:
    def is_created() -> bool:
        made = consumer.post(BINDINGS, binding("cowboys", "cowboys", name_of(provider)))
        return made.status in (201, 409)

    eventually(is_created)  # rejected until the export has arrived
    eventually(lambda: is_bound(consumer))


def start_shard(
    stack: ExitStack, folder: pathlib.Path, cache: CacheProcess, name: str
) -> ServerProcess:
    flags = (
        f"--shard-name={name}",
        f"--cache-kubeconfig={cache.kubeconfig}",
        "--feature-gates=CacheAPIs=true",
    )
    (folder / name).mkdir()
    return stack.enter_context(server(*flags, directory=folder / name))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    tmp_path = tmp_path_factory.mktemp("fleet")
    with ExitStack() as stack:
        cache = stack.enter_context(cache_server(tmp_path / "server"))
        alpha = start_shard(stack, tmp_path, cache, "alpha")
        beta = start_shard(stack, tmp_path, cache, "beta")
        yield Fleet(cache, alpha, beta)


def is_complete(fleet: Fleet, shard: str) -> bool:
    mark = fleet.cache.get(MARKS, shard, "system:cache")
    return mark is not None and "internal.kcp.io/part-complete" in mark["metadata"]["annotations"]


def test_exports_are_bound_on_other_shards(fleet: Fleet) -> None:
    provider = fleet.offer(fleet.alpha)
    consumer = fleet.bind(fleet.beta, provider)
    assert consumer.post(COWBOYS, cowboy("joe")).status == 201
    for shard in ("alpha", "beta"):
        eventually(lambda shard=shard: is_complete(fleet, shard))


def test_copies_are_changed_and_deleted(fleet: Fleet) -> None:
    provider = fleet.offer(fleet.alpha)
    place = name_of(provider)
    copy = fleet.cache.get(f"{CACHED_EXPORTS}/cowboys", "alpha", place)
    original = provider.get(f"{EXPORTS}/cowboys").json["metadata"]
    annotations = copy["metadata"]["annotations"]
    assert annotations["kcp.io/shard"] == "alpha"
    assert annotations["cache.kcp.io/original-resource-UID"] == original["uid"]
    assert copy["metadata"]["uid"] == original["uid"]
    provider.patch(f"{EXPORTS}/cowboys", {"metadata": {"labels": {"star": "sun"}}})

    def labels() -> object:
        found = fleet.cache.get(f"{CACHED_EXPORTS}/cowboys", "alpha", place)
        return (found["metadata"].get("labels") or {}).get("star")

    eventually(lambda: labels() == "sun")
    assert provider.delete(f"{EXPORTS}/cowboys").status == 200
    eventually(lambda: not fleet.cache.names(CACHED_EXPORTS, cluster=place))


def test_the_cache_may_be_away(fleet: Fleet) -> None:
    """A shard starts without it, with what it knew; what it makes meanwhile is published later."""
    provider = fleet.offer(fleet.alpha)
    first = fleet.bind(fleet.beta, provider)
    fleet.cache.kill()
    fleet.beta.kill()
    fleet.beta.start()
    first.close()  # the connection is that of the killed process
    assert first.post(COWBOYS, cowboy("joe")).status == 201
    second = fleet.bind(fleet.beta, provider)
    assert second.post(COWBOYS, cowboy("joe")).status == 201
    later = fleet.cluster(fleet.beta)
    offer(later)
    fleet.cache.start()
    eventually(lambda: fleet.published(later))
    fleet.bind(fleet.alpha, later)


def test_deletions_while_a_shard_is_away(fleet: Fleet) -> None:
    provider = fleet.offer(fleet.alpha)
    consumer = fleet.cluster(fleet.beta)
    eventually(lambda: seen(provider, consumer))
    fleet.beta.stop()
    assert provider.delete(f"{EXPORTS}/cowboys").status == 200
    eventually(lambda: not fleet.published(provider))
    fleet.beta.start()
    late = fleet.cluster(fleet.beta)
    eventually(lambda: not seen(provider, late))


def seen(provider: TestClient, consumer: TestClient) -> bool:
    """Whether a shard knows the export: a binding to it would be accepted."""
    made = consumer.post(f"{BINDINGS}?dryRun=All", binding("cowboys", "cowboys", name_of(provider)))
    return made.status == 201


def test_a_wiped_cache_is_filled_again(fleet: Fleet) -> None:
    provider = fleet.offer(fleet.alpha)
    consumer = fleet.bind(fleet.beta, provider)
    eventually(lambda: is_complete(fleet, "alpha"))
    fleet.alpha.kill()  # it cannot fill its part
    fleet.cache.kill()
    fleet.cache.wipe()
    fleet.cache.start()
    eventually(lambda: is_complete(fleet, "beta"))
    assert not fleet.cache.names(CACHED_EXPORTS, "alpha")
    assert consumer.post(COWBOYS, cowboy("joe")).status == 201
    assert is_bound(fleet.bind(fleet.beta, provider))
    view = fleet.beta.client()
    view.prefix = f"/services/apiexport/{name_of(provider)}/cowboys/clusters/*"
    found = view.get(COWBOYS.replace("/namespaces/default", "")).json["items"]
    assert [item["metadata"]["name"] for item in found] == ["joe"]
    fleet.alpha.start()
    eventually(lambda: fleet.published(provider))
    eventually(lambda: is_complete(fleet, "alpha"))
    assert is_bound(consumer)


def test_deletions_before_a_cache_was_wiped(fleet: Fleet) -> None:
    """What a shard deleted while the cache had lost everything is not kept for ever."""
    provider = fleet.offer(fleet.alpha)
    eventually(lambda: seen(provider, fleet.cluster(fleet.beta)))
    eventually(lambda: is_complete(fleet, "alpha"))
    fleet.cache.kill()
    fleet.cache.wipe()
    assert provider.delete(f"{EXPORTS}/cowboys").status == 200
    eventually(lambda: provider.get(f"{EXPORTS}/cowboys").status == 404)
    fleet.cache.start()
    late = fleet.cluster(fleet.beta)
    eventually(lambda: not seen(provider, late))
    assert fleet.cache.names(CACHED_SCHEMAS, cluster=name_of(provider))


ENCRYPTION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - aesgcm: {keys: [{name: one, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
"""


def test_an_encrypted_shard_keeps_its_mirror(fleet: Fleet, tmp_path: pathlib.Path) -> None:
    """On disk it is sealed; a restart while the cache is away can read it all the same."""
    (tmp_path / "encryption.yaml").write_text(ENCRYPTION)
    flags = (
        "--shard-name=gamma",
        f"--cache-kubeconfig={fleet.cache.kubeconfig}",
        f"--encryption-provider-config={tmp_path / 'encryption.yaml'}",
    )
    provider = fleet.offer(fleet.alpha)
    with server(*flags, directory=tmp_path) as gamma:
        consumer = make_cluster(gamma, "consumer")
        eventually(lambda: seen(provider, consumer))
        gamma.stop()
        fleet.cache.kill()
        try:
            gamma.start()
            consumer.close()
            assert seen(provider, consumer)
        finally:
            fleet.cache.start()
        files = list(gamma.root.glob("cache-mirror.db*"))
        assert files
        assert not any(b"CowboyList" in file.read_bytes() for file in files)


def test_the_part_in_the_cache_is_restored(fleet: Fleet) -> None:
    provider = fleet.offer(fleet.alpha)
    place = f"/services/cache/shards/alpha/clusters/{name_of(provider)}"
    status, answer = fleet.cache.request(f"{place}{CACHED_EXPORTS}/cowboys", "DELETE")
    assert status == 200, answer
    eventually(lambda: fleet.published(provider))


def test_a_shard_does_not_serve_the_cache_then(fleet: Fleet) -> None:
    client = fleet.alpha.client()
    client.prefix = "/services/cache/shards/alpha/clusters/root"
    assert client.get(CACHED_EXPORTS).status == 404
    assert (fleet.alpha.root / "cache-mirror.db").exists()
    assert not (fleet.alpha.root / "cache.db").exists()
    assert provider_is_unknown(fleet)


def provider_is_unknown(fleet: Fleet) -> bool:
    consumer = fleet.cluster(fleet.beta)
    return consumer.post(BINDINGS, binding("x", "nothing", "nowhere")).status == 403
