"""Reading stored objects as far as controllers need them: their metadata, without the rest.

A shallow, typed decode costs a tenth of a whole one, and most objects that a controller
looks at need nothing done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from pykcp.aio.slices import Slices
from pykcp.storage.interface import Query, Store

PAGE = 500
_FIRST_PAGE = 32
_PAGE_BYTES = 2 << 20
"""Pages grow while they hold less than this: objects may be large."""


class OwnerReference(msgspec.Struct, rename="camel", frozen=True):
    uid: str
    name: str = ""
    kind: str = ""
    api_version: str = ""
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """The parts of metadata by which objects are kept, owned and removed."""

    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def is_deleting(self) -> bool:
        return bool(self.deletion_timestamp)

    def has_finalizer(self, finalizer: str) -> bool:
        return finalizer in (self.finalizers or ())


class _Stored(msgspec.Struct):
    metadata: Metadata


_decode = msgspec.json.Decoder(_Stored).decode


def metadata_of(value: bytes) -> Metadata:
    """The metadata of stored bytes."""
    return _decode(value).metadata


async def pages(store: Store, prefix: str, size: int = PAGE) -> AsyncIterator[list[Metadata]]:
    """The metadata of everything under a prefix, a page at a time. An object that comes while
    this goes on may be missed; one that goes is shown if it was there when its page was read.
    """
    after, limit, slices = "", min(_FIRST_PAGE, size), Slices()
    while True:
        page = await store.list(Query(prefix, after=after, limit=limit))
        found: list[Metadata] = []
        for value in page.values:
            found.append(metadata_of(value))
            if slices.is_over():
                await slices.next()
        if found:
            yield found
        if not page.next_after:
            return
        after = page.next_after
        is_short = sum(map(len, page.values)) < _PAGE_BYTES
        limit = min(2 * limit, size) if is_short else max(limit // 2, 1)
