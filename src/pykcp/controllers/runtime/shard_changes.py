"""Following Shard objects without their heartbeats."""

from __future__ import annotations

import msgspec

from pykcp.clients.interface import Change, Feed, Handler
from pykcp.machinery.kcp.clusters import SYSTEM_SHARD
from pykcp.machinery.resources import SHARDS


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


def _is_report(change: Change) -> bool:
    before = None if change.created or change.deleted else change.previous()
    return before is not None and _decode(before).spec == _decode(change.value).spec
