"""Events of several shards as one stream, in the order of their revisions. Pure.

Revisions of different shards can be compared and are never equal. An event may leave when no shard
can have an older one any more: each of them has reported its progress, by an event or a bookmark,
up to that revision. So a client that has seen a revision has seen all events before it, whatever
shard they came from, and can resume from there at any proxy.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pykcp.machinery.status import StatusError


class _Place(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Place = msgspec.field(default_factory=_Place)


class _Line(msgspec.Struct):
    type: str
    object: _Object


_decode_line = msgspec.json.Decoder(_Line).decode


class WatchLine(NamedTuple):
    """An event of a watch."""

    type: str
    revision: int
    data: bytes


def read_line(data: bytes) -> WatchLine:
    """Raises msgspec.MsgspecError. The revision is 0 if there is none."""
    line = _decode_line(data)
    text = line.object.metadata.resource_version
    return WatchLine(line.type, int(text) if text.isascii() and text.isdigit() else 0, data)


def error_line(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % msgspec.json.encode(error.to_json())


class EventMerge:
    def __init__(self, shards: Iterable[str], since: int) -> None:
        """`since`: everything up to this revision is known."""
        self._progress = dict.fromkeys(shards, since)
        self._held: list[tuple[int, bytes]] = []

    def receive(self, shard: str, revision: int, data: bytes | None) -> None:
        """An event of a shard, or a bookmark (None)."""
        progress = self._progress[shard]
        if data is not None and revision > progress:  # after a reconnection some may come twice
            heapq.heappush(self._held, (revision, data))
        self._progress[shard] = max(progress, revision)

    def progress(self, shard: str) -> int:
        """Up to which revision a shard has said everything."""
        return self._progress[shard]

    @property
    def reached(self) -> int:
        """Up to which revision all shards have."""
        return min(self._progress.values())

    def take(self) -> list[bytes]:
        """The events that can leave, in order."""
        reached, ready = self.reached, []
        while self._held and self._held[0][0] <= reached:
            ready.append(heapq.heappop(self._held)[1])
        return ready

    @property
    def wanted(self) -> int:
        """The newest revision that waits for other shards; 0 if none does."""
        return max((revision for revision, _ in self._held), default=0)

    def lagging(self) -> list[str]:
        """The shards that an event waits for."""
        wanted = self.wanted
        return [shard for shard, progress in self._progress.items() if progress < wanted]


# --- lists


class ListPart(msgspec.Struct, rename="camel"):
    """A list, or a table, of one shard; its members are not decoded."""

    kind: str
    api_version: str
    metadata: dict[str, msgspec.Raw]
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None
    column_definitions: msgspec.Raw = msgspec.Raw(b"")

    @property
    def members(self) -> list[msgspec.Raw]:
        return (self.rows if self.kind == "Table" else self.items) or []

    @property
    def next_token(self) -> str:
        raw = self.metadata.get("continue")
        return "" if raw is None else str(msgspec.json.decode(raw))

    def head(self) -> bytes:
        """The merged list up to its members; `tail` ends it."""
        named = f'"kind":"{self.kind}","apiVersion":"{self.api_version}"'.encode()
        if self.kind == "Table":
            return b'{%b,"columnDefinitions":%b,"rows":[' % (named, bytes(self.column_definitions))
        return b'{%b,"items":[' % named


decode_part = msgspec.json.Decoder(ListPart).decode


def tail(revision: int, token: str = "") -> bytes:
    metadata = {"resourceVersion": str(revision)}
    if token:
        metadata["continue"] = token
    return b'],"metadata":%b}\n' % msgspec.json.encode(metadata)


class PageToken(msgspec.Struct):
    """Where the next page of a merged list begins."""

    revision: int
    shard: str
    """Of the shards in the order of their names, the one that is read at the moment."""
    inner: str
    """Its own token; "" for its beginning."""


decode_token = msgspec.json.Decoder(PageToken).decode
