"""What a shard says of itself every few seconds: that it is alive, and how much it has. Pure.

The report is in two annotations of the Shard object in the shard's own `system:shard`, which is
published in the cache:

    internal.kcp.io/heartbeat: "2026-11-16T11:30:00Z"
    internal.kcp.io/load: '{"logicalClusters":1204,"storeBytes":93323264}'

A shard that runs alone does not report.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from pykcp.machinery.meta import now_rfc3339
from pykcp.types import Object

HEARTBEAT = "internal.kcp.io/heartbeat"
LOAD = "internal.kcp.io/load"
REGISTERED = "internal.kcp.io/registered"
"""On the shard's own Shard object, once it has created the one in root: if that is gone later,
somebody has removed the shard from the installation."""
REPORT_SECONDS = 5.0
"""How often a shard reports while its number of logical clusters changes."""
UNCHANGED_SECONDS = 7.0
"""How often it does otherwise: twice before it would count as dead."""
DEAD_SECONDS = 15.0
"""A shard with an older report counts as dead."""


class ShardLoad(NamedTuple):
    """The last report of a shard."""

    reported: float
    """When, in seconds since 1970, by the shard's clock."""
    logical_clusters: int = 0
    store_bytes: int = 0

    def is_alive(self, now: float) -> bool:
        return now - self.reported <= DEAD_SECONDS


class _Load(msgspec.Struct, rename="camel"):
    logical_clusters: int = 0
    store_bytes: int = 0


_decode = msgspec.json.Decoder(_Load).decode


def load_of(shard: Object) -> ShardLoad | None:
    """The report in a Shard; None if it has none, or one that cannot be read."""
    annotations = shard["metadata"].get("annotations") or {}
    try:
        reported = datetime.fromisoformat(annotations[HEARTBEAT]).timestamp()
        load = _decode(annotations.get(LOAD, "{}"))
    except (KeyError, TypeError, ValueError, msgspec.DecodeError):
        return None
    return ShardLoad(reported, load.logical_clusters, load.store_bytes)


def annotations_of(load: ShardLoad) -> dict[str, str]:
    """The annotations that say this."""
    content = msgspec.json.encode(_Load(load.logical_clusters, load.store_bytes))
    return {HEARTBEAT: now_rfc3339(load.reported), LOAD: content.decode()}
