"""The Huffman code: the same as everybody's, and strict about its end."""

from __future__ import annotations

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pykcp.wire.http2.huffman import Huffman, HuffmanError, code_table

_encoder = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


def test_code_is_the_one_of_the_standard():
    """Derived from the lengths alone, the code equals the table that others copied."""
    expected = [*zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)]
    assert code_table() == expected


@hypothesis_settings(deadline=None)
@given(st.binary(max_size=300))
def test_decodes_what_another_library_encodes(octets: bytes):
    """Every string comes back, first by walking the tree and then from memory."""
    huffman = Huffman()
    coded = _encoder.encode(octets)
    assert huffman.decode(coded) == octets.decode("latin-1")
    assert huffman.decode(coded) == octets.decode("latin-1")


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"\x1f\xff", "padding of more than seven bits"),
        (b"\xff", "a whole octet of padding"),
        (b"\x18", "padding with zeros"),
        (b"\xff\xff\xff\xff", "the end-of-string symbol inside"),
        (b"\xff\xff\xff\xfc", "the end-of-string symbol itself"),
    ],
)
def test_refuses_what_is_no_string(octets: bytes, why: str):
    """A bad end is an error, also at the second try."""
    huffman = Huffman()
    for _ in range(2):
        with pytest.raises(HuffmanError):
            huffman.decode(octets)


def test_memories_are_bounded():
    """However many different strings come, no more than the limits are remembered."""
    huffman = Huffman()
    for number in range(3 * Huffman.max_strings):
        text = f"/api/v1/namespaces/{number:07}/configmaps/{number * 7919:09}"
        assert huffman.decode(_encoder.encode(text.encode())) == text
    assert len(huffman._strings) <= Huffman.max_strings
    assert len(huffman._steps) <= Huffman.max_steps
    long = _encoder.encode(b"x" * 4000)
    assert huffman.decode(long) == "x" * 4000
    assert long not in huffman._strings
