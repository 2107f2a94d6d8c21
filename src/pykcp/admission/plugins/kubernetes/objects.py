"""Objects of other kinds, which plug-ins look at."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pykcp.registry import codec
from pykcp.registry.keys import object_key, range_prefix, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.stored import Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

_PAGE = 200


class OtherObjects:
    """Objects of other kinds that the same CRDs or the same binding brought to a logical cluster."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store

    def get(self, request: AdmissionRequest, kind: tuple[str, str], name: str) -> Object | None:
        prefix = resource_prefix(*kind, request.resource.definition.identity)
        entry = self._store.get(object_key(prefix, request.context.cluster, "", name))
        return None if entry is None else codec.decode(entry.value)

    def marked(
        self, request: AdmissionRequest, kind: tuple[str, str], mark: str, namespace: str = ""
    ) -> AsyncIterator[Object]:
        """All, of a namespace if one is named, that mention a word: only those are decoded."""
        prefix = resource_prefix(*kind, request.resource.definition.identity)
        return self._below(range_prefix(prefix, request.context.cluster, namespace), mark)

    def texts(
        self, request: AdmissionRequest, kind: tuple[str, str], mark: str, namespace: str
    ) -> AsyncIterator[bytes]:
        """The same, as they are stored."""
        prefix = resource_prefix(*kind, request.resource.definition.identity)
        return self._values(range_prefix(prefix, request.context.cluster, namespace), mark)

    def of_resource(
        self, cluster: str, resource: Resource, mark: str, namespace: str
    ) -> AsyncIterator[Object]:
        """The same for a resource that is known."""
        return self._below(range_prefix(resource.prefix, cluster, namespace), mark)

    async def _below(self, prefix: str, mark: str) -> AsyncIterator[Object]:
        async for value in self._values(prefix, mark):
            yield codec.decode(value)

    async def _values(self, prefix: str, mark: str) -> AsyncIterator[bytes]:
        word, after = mark.encode(), ""
        while True:
            page = await self._store.list(Query(prefix, after=after, limit=_PAGE))
            for value in page.values:
                if word in value:
                    yield value
            after = page.next_after
            if not after:
                return
