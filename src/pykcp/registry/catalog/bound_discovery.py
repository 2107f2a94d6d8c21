"""Discovery of bound resources: the definitions that the bindings of a cluster add to it."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.aio.slices import in_slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.caching import BoundedCache
from pykcp.registry.keys import WILDCARD
from pykcp.steps import Steps, at_once

_KEEP = 16384


class BoundDiscovery:
    def __init__(self, read: Callable[[str], Steps[tuple[ResourceDefinition, ...]]]) -> None:
        """`read`: the definitions of a logical cluster."""
        self._read = read
        self._changes = 0
        self._lists: BoundedCache[str, tuple[ResourceDefinition, ...]] = BoundedCache(
            "bound-lists", _KEEP
        )

    def forget(self, cluster: str) -> None:
        """The bindings of a cluster changed."""
        self._changes += 1
        self._lists.pop(cluster)

    def forget_all(self) -> None:
        """A schema was bound for the first time, or is bound no longer: that is rare."""
        self._changes += 1
        self._lists.clear()

    def is_loaded(self, cluster: str) -> bool:
        return cluster in self._lists or cluster in ("", WILDCARD)

    async def load(self, cluster: str) -> None:
        """Make the definitions in slices; `definitions` then finds them made."""
        if self.is_loaded(cluster):
            return
        seen = self._changes
        found = await in_slices(self._read(cluster), cluster)
        if seen == self._changes:
            self._lists.put(cluster, found)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if cluster in ("", WILDCARD):
            return ()
        known = self._lists.get(cluster)
        if known is None:
            known = self._lists.put(cluster, at_once(self._read(cluster)))
        return known
