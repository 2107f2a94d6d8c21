"""Following Shard objects, here and on other shards, without their reports of load."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from pykcp.clients.interface import Change, Feed, Handler
from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery.kcp.clusters import ROOT, SYSTEM_SHARD
from pykcp.machinery.resources import SHARDS
from pykcp.registry.lookup import Replica

K = TypeVar("K", bound=Hashable)


class _Shard(msgspec.Struct):
    spec: msgspec.Raw


_decode = msgspec.json.Decoder(_Shard).decode


def follow_shards(feed: Feed, handler: Handler) -> None:
    """Call the handler for changes of Shards that matter to others.

    A shard reports its load in its own Shard object in `system:shard`, every few seconds; of that
    one, only the addresses matter.
    """

    def changed(change: Change) -> None:
        if change.cluster != SYSTEM_SHARD or not _is_report(change):
            handler(change)

    feed.on(SHARDS, changed)


def follow_published_shards(replica: Replica | None, callback: Callable[[], None]) -> None:
    """Call back when a Shard in `root` changes and `root` is on another shard."""

    def changed(kind: tuple[str, str], cluster: str) -> None:
        if kind == (SHARDS.group, SHARDS.resource) and cluster == ROOT:
            callback()

    if replica is not None:
        replica.listen(changed)


class ShardWaiters(Generic[K]):
    """Keys of a controller that wait for a shard to answer: they are tried again when it reports.

    Otherwise they would wait for the end of their backoff, which grows while a shard is away.
    """

    def __init__(self, controller: Controller[K], replica: Replica | None) -> None:
        self._controller = controller
        self._waiting: dict[str, set[K]] = {}
        if replica is not None:
            replica.follow(SHARDS, self._on_shard)

    def wait(self, shard: str, key: K) -> None:
        self._waiting.setdefault(shard, set()).add(key)

    def wake(self, shard: str) -> None:
        """It has answered."""
        for key in self._waiting.pop(shard, ()):
            self._controller.add(key)

    def _on_shard(self, _cluster: str, name: str) -> None:
        self.wake(name)


def _is_report(change: Change) -> bool:
    before = None if change.created or change.deleted else change.previous()
    return before is not None and _decode(before).spec == _decode(change.value).spec
