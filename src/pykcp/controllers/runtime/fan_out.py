"""Changes that concern many: a few are queued at once, more are looked for in slices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable
from functools import partial
from typing import TypeVar

from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.objects import Metadata, pages
from pykcp.storage.interface import Store

K = TypeVar("K", bound=Hashable)

FEW = 16
_PAGE = 200


def add_indexed(
    controller: Controller[K], store: Store, index: str, prefix: str, key_of: Callable[[str], K]
) -> None:
    """Look at all keys under a prefix that carry an index entry. Quick, however many there are."""
    few = store.lookup(index, limit=FEW + 1)
    if len(few) > FEW:
        controller.add_all(index, partial(_indexed, store, index, prefix, key_of))
        return
    for key in few:
        if key.startswith(prefix):
            controller.add(key_of(key))


async def _indexed(
    store: Store, index: str, prefix: str, key_of: Callable[[str], K]
) -> AsyncIterator[K]:
    after = ""
    while keys := store.lookup(index, after=after, limit=_PAGE):
        for key in keys:
            if key.startswith(prefix):
                yield key_of(key)
        after = keys[-1]


def add_stored(
    controller: Controller[K], store: Store, prefix: str, key_of: Callable[[Metadata], K]
) -> None:
    """Look at all objects under a prefix. Quick, however many there are."""
    controller.add_all(prefix, partial(_stored, store, prefix, key_of))


async def _stored(store: Store, prefix: str, key_of: Callable[[Metadata], K]) -> AsyncIterator[K]:
    async for page in pages(store, prefix):
        for metadata in page:
            yield key_of(metadata)
