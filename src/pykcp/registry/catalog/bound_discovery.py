"""Discovery of bound resources: the definitions that the bindings of a cluster add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.caching import BoundedCache
from pykcp.registry.keys import WILDCARD

_KEEP = 16384


class BoundDiscovery:
    def __init__(self, read: Callable[[str], Iterator[ResourceDefinition]]) -> None:
        """`read`: the definitions of a logical cluster, made one after the other."""
        self._read = read
        self._lists: BoundedCache[str, tuple[ResourceDefinition, ...]] = BoundedCache(
            "bound-lists", _KEEP
        )

    def forget(self, cluster: str) -> None:
        """The bindings of a cluster changed."""
        self._lists.pop(cluster)

    def forget_all(self) -> None:
        """A schema was bound for the first time, or is bound no longer: that is rare."""
        self._lists.clear()

    def is_loaded(self, cluster: str) -> bool:
        return cluster in self._lists or cluster in ("", WILDCARD)

    async def load(self, cluster: str) -> None:
        """Make the definitions in slices; `definitions` then finds them made."""
        if self.is_loaded(cluster):
            return
        slices = Slices()
        for _ in self._read(cluster):
            if slices.is_over():
                await slices.next()
        self.definitions(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if cluster in ("", WILDCARD):
            return ()
        known = self._lists.get(cluster)
        if known is None:
            known = self._lists.put(cluster, tuple(self._read(cluster)))
        return known
