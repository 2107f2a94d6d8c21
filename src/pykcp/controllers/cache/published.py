"""The objects that a shard has published in the cache, for its controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object


class Copy(NamedTuple):
    """A copy in the cache, by the original that it is of."""

    resource: str
    """Its `resource_id` in the cache."""
    cluster: str
    name: str


class PublishedCopies(Protocol):
    """The copies of one shard: its own part of the cache, wherever that is."""

    async def get(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None: ...

    def has(self, kind: GroupVersionResource, cluster: str, name: str) -> bool:
        """Cheap: it is asked as changes commit."""

    async def create(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None: ...

    async def update(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None: ...

    async def delete(self, kind: GroupVersionResource, cluster: str, name: str) -> None: ...

    def versions(self, kind: GroupVersionResource) -> AsyncIterator[tuple[str, str, str]]:
        """Cluster, name and the version of the original, of all copies of a kind."""

    def names(self, resource: str, cluster: str) -> list[str]:
        """The names of the copies of a resource of the cache, of one logical cluster."""

    async def purge(
        self, kind: GroupVersionResource, identity: str, cluster: str, name: str
    ) -> None:
        """Remove a copy of a resource with an identity, whether it is still served or not."""

    def listen(self, callback: Callable[[Copy], None]) -> None:
        """Register a callback for every change of a copy, by any writer."""

    async def begin(self) -> Object:
        """Mark the part as incomplete; returns the mark, for `finish`."""

    async def finish(self, mark: Object, revision: int) -> None:
        """Mark the part as complete at a revision of the shard.

        Conflict or NotFound if the cache has lost its data since `begin`.
        """

    def on_return(self, callback: Callable[[], None]) -> None:
        """Register a callback for when the cache can be reached again, after any interruption."""
