"""How often a remote cache server is asked for what a shard has published there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from pykcp.clients.interface import Lister
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.cache.replication import WHOLE_PART, Original, Replication
from pykcp.machinery.kcp.clusters import SYSTEM_SHARD
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import SHARDS, GroupVersionResource
from pykcp.registry import codec
from pykcp.types import Object

KEY = Original(SHARDS, SYSTEM_SHARD, "one")


def report(version: int) -> bytes:
    metadata = f'{{"name":"one","uid":"u","resourceVersion":"{version}"}}'
    return f'{{"metadata":{metadata},"spec":{{"load":{version}}}}}'.encode()


class Originals:
    """One Shard."""

    value_now = report(1)

    def value(self, ref: ObjectRef) -> bytes | None:
        return self.value_now

    async def values_of(self, kind: str, cluster: str) -> AsyncIterator[list[bytes]]:
        return
        yield

    def find(self, *_: object) -> list[ObjectRef]:
        return []


class RemotePart:
    """A cache server, and what has been heard of it."""

    keeps_texts, is_remote = True, True

    def __init__(self) -> None:
        self.copy: Object | None = None
        self.heard: Object | None = None
        self.asked = self.written = 0

    async def outline(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        self.asked += 1
        return self.copy

    def last_heard(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        return self.heard

    async def write(self, kind: GroupVersionResource, cluster: str, outline: Object) -> None:
        self.written += 1
        version = str(100 + self.written)
        self.copy = {**outline, "metadata": {**outline["metadata"], "resourceVersion": version}}

    async def versions(self, kind: GroupVersionResource) -> AsyncIterator[tuple[str, str, str]]:
        if kind == SHARDS and self.copy is not None:
            yield SYSTEM_SHARD, "one", "0"

    async def begin(self) -> Object:
        return {}

    async def finish(self, mark: Object, revision: int) -> None:
        """The part is complete."""


def make() -> tuple[Replication, Originals, RemotePart]:
    originals, part = Originals(), RemotePart()
    lister, published = cast("Lister", originals), cast("PublishedCopies", part)
    return Replication(lister, published, "here"), originals, part


async def test_what_was_just_written_is_not_asked_for() -> None:
    """The news of the copy, which the write itself caused, is what was to be written."""
    replication, originals, part = make()
    for version in (1, 2, 3):
        originals.value_now = report(version)
        await replication.reconcile(KEY)
        part.heard = part.copy
        await replication.reconcile(KEY)
        assert (part.asked, part.written) == (version, version)


async def test_copies_that_others_changed_are_restored() -> None:
    """Whatever is heard and differs is looked at where it is."""
    replication, _, part = make()
    await replication.reconcile(KEY)
    part.copy = part.heard = codec.outline(report(7))
    await replication.reconcile(KEY)
    assert part.copy["spec"] == codec.outline(report(1))["spec"]
    part.copy = part.heard = None
    await replication.reconcile(KEY)
    assert part.copy is not None


async def test_a_comparison_asks_the_server() -> None:
    """It may have lost what was heard of it."""
    replication, _, part = make()
    await replication.reconcile(KEY)
    part.heard = part.copy
    await replication.reconcile(WHOLE_PART)  # finds another version of the original
    part.copy = None
    await replication.reconcile(KEY)
    assert part.written == 2
