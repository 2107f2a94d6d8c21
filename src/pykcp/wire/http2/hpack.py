"""Header compression for HTTP/2 (RFC 7541), made for a server's two directions.

Decoding keeps the dynamic table that the client fills.  Most fields of a request
are then one octet each; the loop below is written for those.

Encoding uses no dynamic table at all.  A field always has the same octets, on
every connection, so they are remembered and an answer's header block is a join
of known pieces.  It costs the wire a few dozen octets an answer and saves the
table's upkeep on both sides.

Bounds: the dynamic table has the size we announced, a list may not decode to
more than `max_list_size` (RFC 9113 counts 32 octets of overhead a field), and
decoding gives up at twice that rather than spend time on a header bomb.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from pykcp.wire.http2.huffman import Huffman, HuffmanError

Field = tuple[str, str]

ENTRY_OVERHEAD = 32
_STEP = 4096
"""Octets of a long block that are decoded at a go."""
DEFAULT_TABLE_SIZE = 4096

STATIC_TABLE: tuple[Field, ...] = (
    ("", ""),  # indices start at one
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
)
_STATIC_SIZE = len(STATIC_TABLE)  # 62: the first dynamic index
_STATIC_FIELDS = {field: index for index, field in enumerate(STATIC_TABLE) if field[0]}

_VALID_NAME = re.compile(
    r"[!#$%&'*+\-.^_`|~0-9a-z]+|:(?:method|path|scheme|authority|protocol|status)"
).fullmatch
_VALID_VALUE = re.compile(r"[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?|").fullmatch


_PATH = b"\x04"
"""A literal that is not indexed, with the name of the static table's `:path`."""
_SECRETS = frozenset(("set-cookie", "cookie", "authorization"))


class HpackError(ValueError):
    """The block cannot be decoded; the two tables no longer agree, so the connection is lost."""


class HeaderListTooLarge(HpackError):
    """The block decodes to much more than is allowed: not worth decoding to its end."""


class _LongString(Exception):
    """A coded string that is to be decoded in steps; where its field begins."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self.octets = octets
        self.position = self.size = 0


def is_valid_field(name: str, value: str) -> bool:
    """Whether a field may stand in an HTTP/2 message: a known pseudo-header or a lower-case token,

    and a value without control characters or blanks around it.
    """
    return _VALID_NAME(name) is not None and _VALID_VALUE(value) is not None


class Decoder:
    """One connection's view of what the client compresses."""

    __slots__ = (
        "_careful_length",
        "_huffman",
        "_long_strings",
        "_max_fields",
        "_max_list_size",
        "_max_table_size",
        "_table",
        "_table_limit",
        "_table_size",
        "generation",
        "has_seen_invalid_field",
        "is_oversize",
    )

    def __init__(
        self,
        huffman: Huffman,
        max_list_size: int,
        max_table_size: int = DEFAULT_TABLE_SIZE,
        max_fields: int = 4096,
    ) -> None:
        self._huffman = huffman
        self._max_fields = max_fields
        self._long_strings: dict[bytes, str] = {}
        """Strings of the block in progress that took more than one step to decode."""
        self._max_list_size = max_list_size
        self._max_table_size = max_table_size
        self._table_limit = max_table_size
        self._table: list[Field] = []  # newest last: dynamic index 62 is -1
        self._table_size = 0
        # An octet stands for at most one field of the table's size, so a block shorter than
        # this cannot exceed the limit and need not be measured.
        self._careful_length = max_list_size // (max_table_size + ENTRY_OVERHEAD)
        self.generation = 0
        """Goes up when the table changes: equal blocks mean equal fields while it stands still."""
        self.has_seen_invalid_field = False
        """Some literal broke the rules; it may be in the table, so from now on look at each."""
        self.is_oversize = False
        """The last block was over the limit; its fields past the limit were dropped."""

    def decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        self.is_oversize = False
        self._decode_some(block, 0, len(block), fields, 0)
        return fields

    def decode_in_steps(self, block: bytes) -> Generator[None, None, list[Field]]:
        """The same for a long block, with a pause after each step of bounded work."""
        fields: list[Field] = []
        self.is_oversize = False
        position = size = 0
        while position < len(block):
            stop = min(position + _STEP, len(block))
            try:
                position, size = self._decode_some(block, position, stop, fields, size)
            except _LongString as found:
                # Decode it apart, then come back to its field; nothing has happened to the table
                # since its beginning, nor do fields before it come again.
                position, size = found.position, found.size
                long = self._huffman.decode_in_steps(found.octets, _STEP)
                try:
                    self._long_strings[found.octets] = yield from long
                except HuffmanError as error:
                    raise HpackError(str(error)) from None
            yield
        # Only for this block: kept longer, they would be a cache that clients can fill.
        self._long_strings = {}
        return fields

    def _decode_some(
        self, block: bytes, position: int, end: int, fields: list[Field], size: int
    ) -> tuple[int, int]:
        """Decode the fields that begin before `end`; where the next begins, and the list's size."""
        append = fields.append
        table = self._table
        is_careful = len(block) > self._careful_length
        start = position
        try:
            while position < end:
                start = position
                octet = block[position]
                position += 1
                if octet >= 0xBE:  # index 62 and up: the newest entry is -1
                    if octet < 0xFF:
                        field = table[0xBD - octet]
                    else:
                        index, position = _integer(block, position, 0x7F)
                        field = table[_STATIC_SIZE - 1 - index]
                elif octet > 0x80:
                    field = STATIC_TABLE[octet - 0x80]
                elif octet == 0x80:
                    raise HpackError("index 0")
                elif octet >= 0x40:
                    field, position = self._literal(block, position, octet & 0x3F, 0x3F)
                    self._insert(field)
                elif octet >= 0x20:
                    if fields:
                        raise HpackError("table size update after the first field")
                    position = self._resize(block, position, octet & 0x1F)
                    continue
                else:
                    field, position = self._literal(block, position, octet & 0x0F, 0x0F)
                if is_careful:
                    size += ENTRY_OVERHEAD + len(field[0]) + len(field[1])
                    if size > self._max_list_size or len(fields) >= self._max_fields:
                        self._overflow(size)
                        continue
                append(field)
        except _LongString as found:
            found.position, found.size = start, size
            raise
        except IndexError:
            raise HpackError("block ends early, or an index is beyond the table") from None
        except HuffmanError as error:
            raise HpackError(str(error)) from None
        return position, size

    def _overflow(self, size: int) -> None:
        if size > 2 * self._max_list_size:
            raise HeaderListTooLarge("header list too large")
        self.is_oversize = True

    def _literal(self, block: bytes, position: int, index: int, mask: int) -> tuple[Field, int]:
        if index == mask:
            index, position = _integer(block, position, mask)
        if not index:
            name, position = self._string(block, position)
            if _VALID_NAME(name) is None:
                self.has_seen_invalid_field = True
        elif index < _STATIC_SIZE:
            name = STATIC_TABLE[index][0]
        else:
            name = self._table[_STATIC_SIZE - 1 - index][0]
        value, position = self._string(block, position)
        if _VALID_VALUE(value) is None:
            self.has_seen_invalid_field = True
        return (name, value), position

    def _string(self, block: bytes, position: int) -> tuple[str, int]:
        octet = block[position]
        position += 1
        length = octet & 0x7F
        if length == 0x7F:
            length, position = _integer(block, position, 0x7F)
        stop = position + length
        if stop > len(block):
            raise HpackError("string ends early")
        octets = block[position:stop]
        if octet & 0x80:
            if length <= _STEP:
                return self._huffman.decode(octets), stop
            known = self._long_strings.get(octets)
            if known is None:
                raise _LongString(octets)
            return known, stop
        return octets.decode("latin-1"), stop

    def _insert(self, field: Field) -> None:
        self.generation += 1
        self._table.append(field)
        self._table_size += ENTRY_OVERHEAD + len(field[0]) + len(field[1])
        if self._table_size > self._table_limit:
            self._evict()

    def _evict(self) -> None:
        while self._table_size > self._table_limit:
            name, value = self._table.pop(0)
            self._table_size -= ENTRY_OVERHEAD + len(name) + len(value)

    def _resize(self, block: bytes, position: int, limit: int) -> int:
        if limit == 0x1F:
            limit, position = _integer(block, position, 0x1F)
        if limit > self._max_table_size:
            raise HpackError("table size above the announced one")
        self.generation += 1
        self._table_limit = limit
        if self._table_size > limit:
            self._evict()
        return position


def _integer(block: bytes, position: int, value: int) -> tuple[int, int]:
    """The rest of an integer whose prefix was all ones."""
    shift = 0
    while True:
        octet = block[position]
        position += 1
        value += (octet & 0x7F) << shift
        if octet < 0x80:
            return value, position
        shift += 7
        if shift > 28:  # nothing we accept needs more than 32 bits
            raise HpackError("integer too long")


class HeaderEncoder:
    """Answers' fields as octets, remembered; to be shared by all connections of a listener."""

    __slots__ = ("_lengths", "_names", "_statuses", "known_fields")

    max_fields = 4096
    TABLE_SIZE_ZERO = b"\x20"
    """What to put before a block once, if the client shrank a table that we never use."""

    def __init__(self) -> None:
        self._names = {name: index for index, (name, _) in reversed([*enumerate(STATIC_TABLE)])}
        self.known_fields: dict[Field, bytes] = {}
        """What `field` would give, for callers in a hurry."""
        self._lengths: dict[int, bytes] = {}
        self._statuses: dict[int, bytes] = {}

    def field(self, field: Field) -> bytes:
        octets = self.known_fields.get(field)
        if octets is None:
            if len(self.known_fields) >= self.max_fields:
                self.known_fields.clear()
            octets = self.known_fields[field] = self._encode(*field)
        return octets

    def once(self, field: Field) -> bytes:
        """A field that will hardly come again, as a path: it is not remembered."""
        return self._encode(*field)

    @staticmethod
    def path(target: str) -> bytes:
        """The `:path` of a request whose characters were checked."""
        return _PATH + _encode_string(target)

    def status(self, status: int) -> bytes:
        octets = self._statuses.get(status)
        if octets is None:
            octets = self._statuses[status] = self._encode(":status", str(status))
        return octets

    def content_length(self, length: int) -> bytes:
        octets = self._lengths.get(length)
        if octets is None:
            if len(self._lengths) >= self.max_fields:
                self._lengths.clear()
            octets = self._lengths[length] = self._encode("content-length", str(length))
        return octets

    def _encode(self, name: str, value: str) -> bytes:
        if not is_valid_field(name, value):
            raise ValueError(f"header {name!r} cannot be sent")
        exact = _STATIC_FIELDS.get((name, value))
        if exact is not None:
            return bytes((0x80 | exact,))
        index = self._names.get(name, 0)
        # Secrets are marked "never indexed" so that no proxy on the way puts them in a table.
        kind = 0x10 if name in _SECRETS else 0x00
        head = _encode_integer(index, 0x0F, kind)
        if not index:
            head += _encode_string(name)
        return head + _encode_string(value)


def _encode_integer(value: int, mask: int, flags: int) -> bytes:
    if value < mask:
        return bytes((flags | value,))
    octets = bytearray((flags | mask,))
    value -= mask
    while value >= 0x80:
        octets.append(0x80 | value & 0x7F)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _encode_string(text: str) -> bytes:
    octets = text.encode("latin-1")
    return _encode_integer(len(octets), 0x7F, 0x00) + octets
