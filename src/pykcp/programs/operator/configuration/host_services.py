"""Names of Services where there are none: manifests name them in mappings of paths."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from pykcp.programs.operator import compiled
from pykcp.programs.operator.configuration.virtual_workspaces import virtual_place
from pykcp.programs.operator.configuration.world import World, shard_place
from pykcp.programs.operator.platform import WorkloadPlace


def host_url(world: World, url: str) -> str:
    """A URL at which this host reaches what a Service of this namespace would lead to."""
    parts = urlsplit(url)
    for place in _places(world):
        if parts.hostname in _service_names(place):
            return world.platform.reached(place).url + parts.path
    return url


def _places(world: World) -> Iterator[WorkloadPlace]:
    yield from (virtual_place(world, one) for one in world.all("VirtualWorkspace"))
    yield from (shard_place(world, one, compiled.SHARD) for one in world.all("Shard"))
    yield from (shard_place(world, one, compiled.ROOT_SHARD) for one in world.all("RootShard"))


def _service_names(place: WorkloadPlace) -> tuple[str, ...]:
    short = f"{place.workload}.{place.namespace}"
    return (place.workload, short, f"{short}.svc", f"{short}.svc.{place.domain}")
