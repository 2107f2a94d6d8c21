"""The objects that a shard has published in the cache, for its controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from pykcp.aio.turns import heavy_turn
from pykcp.controllers.cache.replication_plan import (
    NOTHING,
    CopyAction,
    ReplicationPlan,
    is_same_content,
    plan,
)
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry import codec
from pykcp.types import Object


class Copy(NamedTuple):
    """A copy in the cache, by the original that it is of."""

    resource: str
    """Its `resource_id` in the cache."""
    cluster: str
    name: str


class PublishedCopies(Protocol):
    """The copies of one shard: its own part of the cache, wherever that is."""

    keeps_texts: bool
    """Whether what is read of a copy is the same text, byte for byte, as was written."""
    is_remote: bool
    """Whether reading a copy is a request to another server."""

    async def get(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        """A copy, decoded."""

    def has(self, kind: GroupVersionResource, cluster: str, name: str) -> bool:
        """Cheap: it is asked as changes commit."""

    async def create(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        """Create an object that is no copy."""

    async def update(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        """Update an object that is no copy."""

    async def outline(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        """A copy in outline (`codec.outline`)."""

    def last_heard(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        """A copy in outline, without asking: a remote cache may have another by now, or none."""

    async def write(self, kind: GroupVersionResource, cluster: str, outline: Object) -> None:
        """Write a copy over the one with the resource version that it names, or a new one.

        Raises NotFound, Conflict or AlreadyExists.
        """

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


async def plan_copy(
    published: PublishedCopies,
    cluster: str,
    local: Object | None,
    copy: Object | None,
    shard: str,
) -> ReplicationPlan:
    """What has to be done to a copy; both objects are in outline."""
    todo = plan(local, copy, shard)
    if todo.action is not CopyAction.UPDATE or published.keeps_texts:
        return todo
    assert local is not None
    assert copy is not None
    async with heavy_turn(cluster):  # perhaps only their texts differ, and not what they say
        is_same = is_same_content(codec.filled_in(copy), codec.filled_in(local))
    return NOTHING if is_same else todo
