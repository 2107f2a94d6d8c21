"""Header compression against the standard's examples, another library, and abuse."""

from __future__ import annotations

import hpack as other
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pykcp.wire.http2.hpack import (
    STATIC_TABLE,
    Decoder,
    HeaderEncoder,
    HeaderListTooLarge,
    HpackError,
    is_valid_field,
)
from pykcp.wire.http2.huffman import Huffman


def decoder(max_list_size: int = 1 << 20, max_table_size: int = 4096) -> Decoder:
    return Decoder(Huffman(), max_list_size, max_table_size)


REQUESTS = [
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
]


@pytest.mark.parametrize(
    "blocks",
    [
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ],
    ids=["plain (RFC 7541 C.3)", "Huffman (RFC 7541 C.4)"],
)
def test_requests_of_the_standard(blocks: list[str]):
    """The examples decode to their fields, the table carrying over from one to the next."""
    subject = decoder()
    assert [subject.decode(bytes.fromhex(block)) for block in blocks] == REQUESTS


def test_eviction_as_in_the_standard():
    """RFC 7541 C.5: with a table of 256 octets old entries leave in order."""
    subject = decoder(max_table_size=256)
    first = (
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a3231"
        "20474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d"
    )
    subject.decode(bytes.fromhex(first))
    assert subject.decode(bytes.fromhex("4803333037c1c0bf")) == [
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ]
    with pytest.raises(HpackError):  # ":status: 302" was the oldest and is gone
        subject.decode(b"\xc2")


FIELDS = st.lists(
    st.tuples(
        st.sampled_from(
            [name for name, _ in STATIC_TABLE[1:]] + ["x-a", "x-b", "impersonate-user"]
        ),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60),
    ),
    max_size=12,
)


@hypothesis_settings(deadline=None)
@given(st.lists(FIELDS, max_size=12), st.booleans())
def test_decodes_what_another_library_encodes(lists: list[list[tuple[str, str]]], huffman: bool):
    """Whatever another encoder does with its table, the fields come back."""
    encoder = other.Encoder()
    subject = decoder(max_list_size=2000)
    for fields in lists:
        block = encoder.encode(fields, huffman=huffman)
        size = sum(32 + len(name) + len(value) for name, value in fields)
        assert subject.decode(block) == fields or size > 2000


@hypothesis_settings(deadline=None)
@given(FIELDS)
def test_another_library_decodes_what_we_encode(fields: list[tuple[str, str]]):
    """Our octets are understood, in any order and any number."""
    encoder = HeaderEncoder()
    block = b"".join(map(encoder.field, fields))
    assert [(name, value) for name, value in other.Decoder().decode(block)] == fields


def test_common_answers_are_short():
    """A status and a known length cost a few octets."""
    encoder = HeaderEncoder()
    assert encoder.status(200) == b"\x88"
    assert other.Decoder().decode(encoder.status(409)) == [(":status", "409")]
    assert other.Decoder().decode(encoder.content_length(1500)) == [("content-length", "1500")]
    assert encoder.field(("set-cookie", "a=b"))[0] & 0xF0 == 0x10  # never to be indexed


@pytest.mark.parametrize(
    ("name", "value"),
    [("Content-Type", "a"), ("a b", "c"), ("a", "b\r\nc"), ("a", "b\0"), ("", "x"), ("a", " b")],
)
def test_fields_that_cannot_be_sent_are_refused(name: str, value: str):
    """A header that would break the answer apart never leaves."""
    with pytest.raises(ValueError, match="cannot be sent"):
        HeaderEncoder().field((name, value))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("80", "index 0"),
        ("be", "index beyond the table"),
        ("ff00", "index cut off by the table's end"),
        ("7f80ffffffff7f", "name index that is no 32-bit number"),
        ("ffffffffffff", "integer without end"),
        ("828620", "size update after a field"),
        ("3fe21f", "size update above 4096"),
        ("4003", "name cut short"),
        ("40016105", "value cut short"),
        ("41", "block ends in the middle"),
        ("00821fff0161", "bad Huffman padding"),
    ],
)
def test_broken_blocks(block: str, why: str):
    """What cannot be decoded is an error, since both tables would differ from then on."""
    with pytest.raises(HpackError):
        decoder().decode(bytes.fromhex(block))


def test_table_can_be_shrunk_and_grown():
    """A size update empties the table; a second one in the same block lets it fill again."""
    subject = decoder()
    subject.decode(b"\x40\x01a\x01b")
    assert subject.decode(b"\x20\x3f\xe1\x1f\x40\x01c\x01d") == [("c", "d")]
    assert subject.decode(b"\xbe") == [("c", "d")]
    with pytest.raises(HpackError):
        subject.decode(b"\xbf")


def test_entry_larger_than_the_table_empties_it():
    """It is delivered but not kept, and takes everything else with it."""
    subject = decoder(max_table_size=64)
    subject.decode(b"\x40\x01a\x01b")
    assert subject.decode(b"\x40\x01c\x7f\x00" + b"x" * 127) == [("c", "x" * 127)]
    with pytest.raises(HpackError):
        subject.decode(b"\xbe")


def test_generation_tells_whether_the_table_changed():
    """Equal blocks may be taken for equal requests only while it stands still."""
    subject = decoder()
    subject.decode(b"\x82\x86")
    assert subject.generation == 0
    subject.decode(b"\x40\x01a\x01b")
    assert subject.generation == 1
    subject.decode(b"\x00\x01a\x01b\xbe")
    assert subject.generation == 1


def test_header_bomb_is_cut_off():
    """One large entry referred to over and over: too large, then not worth decoding."""
    subject = decoder(max_list_size=10_000)
    subject.decode(b"\x40\x01a\x7f\x81\x1e" + b"x" * 3968)
    fields = subject.decode(b"\xbe" * 4)
    assert subject.is_oversize
    assert len(fields) == 2  # only what fits is kept
    with pytest.raises(HeaderListTooLarge):
        subject.decode(b"\xbe" * 1000)
    subject.decode(b"\x82")
    assert not subject.is_oversize


def test_invalid_literals_are_remembered():
    """Once an invalid field may be in the table, every list has to be looked at."""
    subject = decoder()
    subject.decode(b"\x40\x01a\x01b")
    assert not subject.has_seen_invalid_field
    subject.decode(b"\x40\x01A\x01b")
    assert subject.has_seen_invalid_field


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("accept", "", True),
        ("accept", "a b\tc", True),
        ("x-ü", "a", False),
        ("accept", "ü", True),
        ("accept", "a ", False),
        ("accept", "\x7f", False),
        (":path", "/", True),
        (":unknown", "/", False),
        (":status", "200", True),
    ],
)
def test_validity(name: str, value: str, expected: bool):
    """Names are lower-case tokens or known pseudo-headers; values have no control characters."""
    assert is_valid_field(name, value) is expected
