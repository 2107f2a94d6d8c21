"""When the last shard joined the installation, as the shard that has `root` knows it.

A mark is written together with each Shard that is created in `root`. A list of all shards from
before its revision has nothing of what the new shard has, and that is no event: a watch over all
shards cannot go on from there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykcp.registry.verbs.admitting import AdmissionRequest, Counts
from pykcp.storage.interface import StoreReader, Value
from pykcp.storage.keys import MARKS, TRASH
from pykcp.storage.operations import PutKey

JOINED = f"{MARKS}joined/{TRASH}shards//last"
"""The key of the mark."""


@asynccontextmanager
async def marked(requests: Sequence[AdmissionRequest]) -> AsyncIterator[Counts]:
    """What is written together with new Shards."""
    yield (PutKey(JOINED, Value(b'{"revision":"', b'"}')),)


def last_joined(store: StoreReader) -> int:
    """The revision at which it was; 0 if that was never noted."""
    mark = store.get(JOINED)
    return mark.revision if mark is not None else 0
