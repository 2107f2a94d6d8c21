"""The format of values and revisions of the store in etcd. Pure.

A value in etcd is an envelope: terms, indexes and the bytes before and after the
revision, which is derived from etcd's revision of the key (see `epochs`).

etcd assigns one revision to all operations of a transaction, and many transactions
are sent as one. Here every operation has its own revision: etcd's, with an offset, and the
position of the operation in the request as its last eight bits. The position is in
the envelope, so every server computes the same number.

A delete event of etcd has no value, but watchers need the last state. It is written
to a grave in the same transaction: a key named after the position, overwritten by
later deletions, that contains the deleted key.

Every request also writes the head: its revision in etcd is that of the last change.
So one read of it returns the revision that a current mirror must have reached, and
guarantees that the watch will deliver it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pykcp.storage.interface import Value

PLACE_BITS = 8
PLACES = 1 << PLACE_BITS

HEADER = struct.Struct("<BBQIIII")
FORMAT = 0x91
"""The first byte; neither JSON nor Kubernetes' protobuf starts with it."""
OFFSET = struct.Struct("<Q")
WITH_OFFSET = 0x92
"""The first byte of an envelope whose header is followed by an offset."""


class Envelope(NamedTuple):
    place: int
    writer: int
    """Which server wrote it, and in which of its requests: it knows its own again."""
    request: int
    terms: str
    indexes: str
    value: Value
    offset: int = 0
    """Of the epoch in which it was written."""

    def pack(self) -> bytes:
        terms, indexes = self.terms.encode(), self.indexes.encode()
        head, tail = self.value
        header = HEADER.pack(
            WITH_OFFSET if self.offset else FORMAT,
            self.place, self.writer, self.request, len(terms), len(indexes), len(head),
        )  # fmt: skip
        offset = OFFSET.pack(self.offset) if self.offset else b""
        return b"".join((header, offset, terms, indexes, head, tail))


def unpack(data: bytes) -> Envelope:
    """Raises ValueError for what is not an envelope."""
    if len(data) < HEADER.size or data[0] not in (FORMAT, WITH_OFFSET):
        raise ValueError("not a value of this program")
    form, place, writer, request, terms_size, indexes_size, head_size = HEADER.unpack_from(data)
    start, offset = HEADER.size, 0
    if form == WITH_OFFSET:
        start += OFFSET.size
        if len(data) < start:
            raise ValueError("cut off")
        (offset,) = OFFSET.unpack_from(data, HEADER.size)
    terms_end = start + terms_size
    indexes_end = terms_end + indexes_size
    head_end = indexes_end + head_size
    if head_end > len(data):
        raise ValueError("cut off")
    return Envelope(
        place,
        writer,
        request,
        data[start:terms_end].decode(),
        data[terms_end:indexes_end].decode(),
        Value(data[indexes_end:head_end], data[head_end:]),
        offset,
    )


class Keyspace:
    """The names of our keys in etcd."""

    def __init__(self, prefix: str) -> None:
        self.start = "/".join(("", *filter(None, prefix.split("/")), "pykcp/")).encode()
        self.end = self.start[:-1] + b"0"
        """All keys of this program are between start and end; others may use the same prefix."""
        self.data = self.start + b"data"
        self.data_end = self.start + b"datb"
        self.graves = self.start + b"graves/"
        self.graves_end = self.start + b"graves0"
        self.head = self.start + b"head"
        self.holds = self.start + b"holds/"
        """One for each logical cluster whose writes wait, on all servers."""
        self.holds_end = self.start + b"holds0"
        self.imports = self.start + b"imports/"
        """One for each logical cluster that came from another shard a short time ago."""
        self.imports_end = self.start + b"imports0"
        self.numbering = self.start + b"numbering"
        """The offset of the current epoch."""
        self.servers = self.start[:-1] + b"-servers/"
        """Which servers there are, and who leads. Beside the others, so that the mirror does not
        follow it."""
        self.format = self.start[:-1] + b"-format"
        """The version of the format; likewise."""

    def key(self, key: str) -> bytes:
        return self.data + key.encode()

    def grave(self, place: int) -> bytes:
        return self.graves + b"%d" % place

    def import_of(self, part: str) -> bytes:
        return self.imports + part.encode()

    def imported_part(self, etcd_key: bytes) -> str | None:
        return _after(self.imports, etcd_key)

    def hold_of(self, part: str) -> bytes:
        return self.holds + part.encode()

    def held_part(self, etcd_key: bytes) -> str | None:
        return _after(self.holds, etcd_key)

    def is_data(self, etcd_key: bytes) -> bool:
        return etcd_key.startswith(self.data)

    def is_grave(self, etcd_key: bytes) -> bool:
        return etcd_key.startswith(self.graves)

    def key_of(self, etcd_key: bytes) -> str:
        return etcd_key[len(self.data) :].decode()


def _after(start: bytes, etcd_key: bytes) -> str | None:
    return etcd_key[len(start) :].decode(errors="replace") if etcd_key.startswith(start) else None
