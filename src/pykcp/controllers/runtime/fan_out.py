"""Fan-out of a change to many keys: a few are queued immediately, more in time slices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable
from functools import partial
from typing import TypeVar

from pykcp.clients.interface import Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery.metadata import Metadata
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import GroupVersionResource

K = TypeVar("K", bound=Hashable)

FEW = 16
_PAGE = 200


def key_of(ref: ObjectRef) -> ObjectKey:
    """For controllers whose keys are the objects that are found."""
    return ref.key


def add_indexed(
    controller: Controller[K],
    lister: Lister,
    index: str,
    kind: GroupVersionResource,
    key_of: Callable[[ObjectRef], K],
) -> None:
    """Look at all objects of a kind that carry an index entry. Quick, however many there are."""
    few = lister.find(index, kind, limit=FEW + 1)
    if len(few) > FEW:
        controller.add_all(index, partial(_indexed, lister, index, kind, key_of))
        return
    for ref in few:
        controller.add(key_of(ref))


async def _indexed(
    lister: Lister, index: str, kind: GroupVersionResource, key_of: Callable[[ObjectRef], K]
) -> AsyncIterator[K]:
    after: ObjectRef | None = None
    while found := lister.find(index, kind, after=after, limit=_PAGE):
        for ref in found:
            yield key_of(ref)
        after = found[-1]


def add_stored(
    controller: Controller[K],
    lister: Lister,
    resource: str,
    cluster: str,
    key_of: Callable[[Metadata], K],
) -> None:
    """Look at all objects of a resource in a cluster. Quick, however many there are."""
    controller.add_all((resource, cluster), partial(_stored, lister, resource, cluster, key_of))


async def _stored(
    lister: Lister, resource: str, cluster: str, key_of: Callable[[Metadata], K]
) -> AsyncIterator[K]:
    async for page in lister.metadata_of(resource, cluster):
        for metadata in page:
            yield key_of(metadata)
