"""The sealed text, and the format of sealed values in the store. Pure.

A value consists of the bytes before and after its revision, which the store assigns. So
the value is sealed without the revision, and with its key in front:

    <length of key, of terms, of head> <key> <terms> <head> <tail>

and the store gets `Value(head=<envelope> + "@", tail="")`: it appends the revision to the
envelope, and reading moves it from there to its position in the value. The envelope begins with upstream's prefix (`k8s:enc:aescbc:v1:key1:`).

The key inside is compared with the key of the row. So a sealed value that was copied
to another row, for example another tenant's, is rejected.

Terms (labels and selectable fields) are sealed too: they are in the value, and once
more in the text that the store filters by, which becomes `\\x1fsealed:<base64>\\x1f`.
"""

from __future__ import annotations

import binascii
import struct
from typing import NamedTuple

from pykcp.storage.encryption.errors import Unreadable
from pykcp.storage.interface import TERM_SEPARATOR, Value

ENVELOPE = b"k8s:enc:"
"""What every sealed value begins with; JSON never does."""
_HEADER = struct.Struct(">HII")
_MARK = b"@"
_TERMS_LEAD = f"{TERM_SEPARATOR}sealed:"


class Unpacked(NamedTuple):
    key: str
    terms: str
    value: Value


def pack(key: str, terms: str, value: Value) -> bytes:
    name, words = key.encode(), terms.encode()
    header = _HEADER.pack(len(name), len(words), len(value.head))
    return b"".join((header, name, words, value.head, value.tail))


def unpack(plain: bytes) -> Unpacked:
    """Raises Unreadable for what `pack` did not make (a cipher that does not notice tampering)."""
    try:
        name_size, terms_size, head_size = _HEADER.unpack_from(plain)
        name_end = _HEADER.size + name_size
        terms_end = name_end + terms_size
        head_end = terms_end + head_size
        if head_end > len(plain):
            raise Unreadable("the opened data is not a value")
        return Unpacked(
            plain[_HEADER.size : name_end].decode(),
            plain[name_end:terms_end].decode(),
            Value(plain[terms_end:head_end], plain[head_end:]),
        )
    except (struct.error, UnicodeDecodeError):
        raise Unreadable("the opened data is not a value") from None


def stored_value(envelope: bytes) -> Value:
    return Value(envelope + _MARK, b"")


def split_stored(stored: bytes) -> tuple[bytes, bytes]:
    """The envelope and the digits of the revision."""
    place = stored.rfind(_MARK)
    return stored[:place], stored[place + 1 :]


def filled(value: Value, digits: bytes) -> bytes:
    return b"%b%b%b" % (value.head, digits, value.tail)


def is_sealed(stored: bytes) -> bool:
    return stored.startswith(ENVELOPE)


def seal_terms(envelope: bytes) -> str:
    text = binascii.b2a_base64(envelope, newline=False).decode()
    return f"{_TERMS_LEAD}{text}{TERM_SEPARATOR}"


def are_terms_sealed(terms: str) -> bool:
    return terms.startswith(_TERMS_LEAD)


def terms_envelope(terms: str) -> bytes:
    try:
        return binascii.a2b_base64(terms[len(_TERMS_LEAD) : -1])
    except binascii.Error:
        raise Unreadable("the stored terms are damaged") from None
