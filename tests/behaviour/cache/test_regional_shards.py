"""Shards of two regions, each with a cache server of its own."""

from __future__ import annotations

import pathlib
from contextlib import ExitStack

import pytest
from tests.behaviour.cache.test_remote import bind_to, seen, start_shard

from pykcp.testing.apis import COWBOYS, EXPORTS, cowboy
from pykcp.testing.binding import is_bound, offer
from pykcp.testing.caches import cache_server
from pykcp.testing.client import eventually
from pykcp.testing.clusters import make_cluster


@pytest.mark.slow
def test_exports_of_another_region(tmp_path: pathlib.Path) -> None:
    with ExitStack() as stack:
        east = stack.enter_context(cache_server(tmp_path / "east"))
        link = f"--upstream-kubeconfig={east.kubeconfig}"
        west = stack.enter_context(cache_server(tmp_path / "west", link))
        alpha = start_shard(stack, tmp_path, east, "alpha")
        beta = start_shard(stack, tmp_path, west, "beta")
        provider, consumer = make_cluster(alpha, "provider"), make_cluster(beta, "consumer")
        offer(provider)
        bind_to(consumer, provider)
        assert consumer.post(COWBOYS, cowboy("joe")).status == 201
        east.kill()  # with everything that it knows, and the shard of the export
        east.wipe()
        alpha.kill()
        late = make_cluster(beta, "late")
        bind_to(late, provider)
        east.start()
        eventually(
            lambda: "cowboys" in east.names("/apis/apis.kcp.io/v1alpha2/apiexports", "alpha")
        )
        alpha.start()
        assert is_bound(consumer)
        provider.close()
        other = make_cluster(alpha, "other")
        offer(other)
        bind_to(make_cluster(beta, "last"), other)
        assert other.delete(f"{EXPORTS}/cowboys").status == 200
        eventually(lambda: not seen(other, late))
