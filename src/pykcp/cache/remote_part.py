"""A shard's own part of a remote cache server.

It is written there, and read in the mirror wherever an answer is needed at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from pykcp.apis.catalog import definition_of
from pykcp.cache.mirror import CacheMirror
from pykcp.cache.publishing import CachePublisher
from pykcp.cache.scopes import join
from pykcp.controllers.cache.replication_plan import ORIGINAL_VERSION
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.codec import CLUSTER_ANNOTATION
from pykcp.types import Object


class RemotePublisher(CachePublisher):
    keeps_texts = False
    """kcp's cache server sorts the members of objects."""
    is_remote = True

    def __init__(self, mirror: CacheMirror) -> None:
        super().__init__(mirror.cache, mirror.own_shard, mirror.client)
        self._mirror, self._server = mirror, mirror.client

    async def outline(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        text = await self._server.get_text(join(self._shard, cluster), kind, name)
        return None if text is None else codec.outline(text)

    async def write(self, kind: GroupVersionResource, cluster: str, outline: Object) -> None:
        text = codec.outline_text(_typed(kind, outline))
        metadata = outline["metadata"]
        name = metadata["name"] if metadata.get("resourceVersion") else ""
        await self._server.write_text(join(self._shard, cluster), kind, name, text)

    async def delete(self, kind: GroupVersionResource, cluster: str, name: str) -> None:
        await self._client.delete(join(self._shard, cluster), kind, name)

    async def create(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        await super().create(kind, cluster, _typed(kind, obj))

    async def update(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        await super().update(kind, cluster, _typed(kind, obj))

    async def versions(self, kind: GroupVersionResource) -> AsyncIterator[tuple[str, str, str]]:
        # Not those of the mirror, which may not have noticed yet that the server lost its data.
        async for page in self._client.pages(join(self._shard, WILDCARD), kind):
            for obj in page:
                metadata = obj["metadata"]
                annotations = metadata["annotations"]
                version = annotations.get(ORIGINAL_VERSION) or ""
                yield annotations[CLUSTER_ANNOTATION], metadata["name"], version

    async def purge(
        self, kind: GroupVersionResource, identity: str, cluster: str, name: str
    ) -> None:
        named = kind._replace(resource=f"{kind.resource}:{identity}")
        try:
            await self._client.delete(join(self._shard, cluster), named, name)
        except NotFound:
            return  # the server does not serve the resource any more

    def on_return(self, callback: Callable[[], None]) -> None:
        self._mirror.on_return(callback)


def _typed(kind: GroupVersionResource, obj: Object) -> Object:
    """The object with its type, which stored objects leave out."""
    if "kind" in obj:
        return obj
    name = definition_of(kind.group, kind.resource).kind
    return {"kind": name, "apiVersion": f"{kind.group}/{kind.version}", **obj}
