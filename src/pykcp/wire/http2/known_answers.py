"""Heads of answers that are read without being decoded, and passed on in the octets they came in.

The servers of an installation encode headers without a table: the same fields have the same octets
on every connection. Their answers begin with the same fields again and again; then come the date,
an id that is different every time, and the length:

    :status, other fields │ date │ id: its name and size │ value of the id │ content-length
    the lead                the middle                                       the length

A block whose parts are known, each from a block that was decoded and checked before, means those
fields: a header block that is cut between two fields is decoded in two parts. Only the value of the
id is new, and is checked. All of it but the length may be sent to a client as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar, overload

from pykcp.wire.heads import ResponseHead
from pykcp.wire.http2.hpack import Field, HeaderEncoder

_DATE = b"\x0f\x12\x1d"
"""How a date is encoded, up to its 29 characters."""
_LENGTH = "content-length"
_ONE_HOP = frozenset(
    ("te", "trailer", "proxy-authenticate", "proxy-authorization", "date", _LENGTH)
)
"""Fields that are not passed on as they are, of those that an HTTP/2 answer may have."""
_MOST_LEADS = 64
_MOST_MIDDLES = 64
_MOST_LENGTHS = 4096
_LEAST_USE = 8
"""How often leads have to be of use on average to be worth learning."""
_LONGEST_ID = 126
"""Its size is one octet."""
_UNKNOWN = -1
_Known = TypeVar("_Known")
_is_id = re.compile(rb"[!-~]+").fullmatch


class _Lead(NamedTuple):
    status: int
    fields: tuple[Field, ...]
    middle_size: int


class _Middle(NamedTuple):
    date: str
    id_name: str
    id_size: int


class PassedHeaders(Sequence[Field]):
    """Fields of an answer, and the octets of all but its length."""

    __slots__ = ("_lead", "_made", "_middle", "content_length", "octets")

    def __init__(
        self, lead: _Lead, middle: _Middle, octets: bytes, content_length: int | None
    ) -> None:
        self._lead, self._middle = lead, middle
        self.octets = octets
        """With the status; they end with the value of the id."""
        self.content_length = content_length
        self._made: tuple[Field, ...] | None = None

    def octets_for(self, status: int, id_name: str) -> bytes | None:
        """What can be sent instead of an answer with this status, whose id is named so."""
        is_same = self._lead.status == status and self._middle.id_name == id_name
        return self.octets if is_same else None

    def without_length(self) -> PassedHeaders:
        return PassedHeaders(self._lead, self._middle, self.octets, None)

    def _fields(self) -> tuple[Field, ...]:
        if self._made is None:
            date, id_name, size = self._middle
            answer_id = self.octets[-size:].decode()
            made = (*self._lead.fields, ("date", date), (id_name, answer_id))
            length = self.content_length
            self._made = made if length is None else (*made, (_LENGTH, str(length)))
        return self._made

    def __len__(self) -> int:
        return len(self._fields())

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields())

    @overload
    def __getitem__(self, index: int) -> Field: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Field]: ...
    def __getitem__(self, index: int | slice) -> Field | Sequence[Field]:
        return self._fields()[index]


class KnownAnswers:
    """What one connection knows of its server's answers."""

    __slots__ = ("_encoder", "_is_off", "_leads", "_lengths", "_middles", "_uses")

    def __init__(self) -> None:
        self._encoder = HeaderEncoder()
        self._leads: dict[bytes, _Lead] = {}
        self._middles: dict[bytes, _Middle] = {}
        self._lengths: dict[bytes, int | None] = {}
        self._uses = 0
        self._is_off = False
        """The server's answers are all different."""

    def read(self, block: bytes) -> ResponseHead | None:
        """The head that a block means; None if it has to be decoded."""
        at = block.find(_DATE)
        lead = self._leads.get(block[:at])
        if lead is None:
            return None
        start = at + lead.middle_size
        middle = self._middles.get(block[at:start])
        if middle is None:
            return None
        end = start + middle.id_size
        length = self._lengths.get(block[end:], _UNKNOWN)
        if length == _UNKNOWN or not _is_id(block, start, end):
            return None
        self._uses += 1
        return ResponseHead(lead.status, PassedHeaders(lead, middle, block[:end], length), length)

    def learn(self, block: bytes, head: ResponseHead) -> None:
        """Remember the parts of a block that was decoded, if it is encoded as described above."""
        fields = [*head.headers]
        if fields and fields[-1][0] == _LENGTH:
            del fields[-1]
        if self._is_off or len(fields) < 2:
            return
        *others, (date_name, date), (id_name, answer_id) = fields
        names, size = {name for name, _ in others}, len(answer_id)
        is_usual = date_name == "date" and id_name not in names and names.isdisjoint(_ONE_HOP)
        if not is_usual or not 0 < size <= _LONGEST_ID:
            return
        once = self._encoder.once
        lead = once((":status", str(head.status))) + b"".join([once(field) for field in others])
        middle = once(("date", date)) + once((id_name, answer_id))[:-size]
        length = b""
        if head.content_length is not None:
            length = once((_LENGTH, str(head.content_length)))
        # If not, the server uses a table, or encodes fields otherwise.
        if block == lead + middle + answer_id.encode("latin-1") + length:
            self._remember_lead(lead, _Lead(head.status, tuple(others), len(middle)))
            _put(self._middles, _MOST_MIDDLES, middle, _Middle(date, id_name, size))
            _put(self._lengths, _MOST_LENGTHS, length, head.content_length)

    def _remember_lead(self, octets: bytes, lead: _Lead) -> None:
        if len(self._leads) >= _MOST_LEADS and octets not in self._leads:
            self._is_off = self._uses < _MOST_LEADS * _LEAST_USE
            self._uses = 0
        _put(self._leads, _MOST_LEADS, octets, lead)


def _put(memory: dict[bytes, _Known], most: int, octets: bytes, known: _Known) -> None:
    if len(memory) >= most:
        memory.clear()
    memory[octets] = known
