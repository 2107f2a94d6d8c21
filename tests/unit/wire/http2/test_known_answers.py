"""Heads of answers that are read and passed on without being decoded."""

from __future__ import annotations

import hpack
import pytest

from pykcp.wire.heads import ResponseHead, http2_response_head
from pykcp.wire.http2.hpack import Decoder, Field, HeaderEncoder
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.known_answers import KnownAnswers, PassedHeaders

DATES = ("Wed, 18 Nov 2026 07:30:55 GMT", "Wed, 18 Nov 2026 07:30:56 GMT")
JSON: Field = ("content-type", "application/json")


def uuid(number: int) -> str:
    return f"a8637188-127f-469a-a39e-{number:012x}"


def fields(
    number: int, *others: Field, status: str = "200", date: str = DATES[0], length: str = "12"
) -> list[Field]:
    ended = [("content-length", length)] if length else []
    return [(":status", status), *others, ("date", date), ("audit-id", uuid(number)), *ended]


def encoded(made: list[Field]) -> bytes:
    """As the server does it."""
    encoder = HeaderEncoder()
    return b"".join([encoder.once(field) for field in made])


def decoded(block: bytes) -> ResponseHead:
    return http2_response_head(Decoder(Huffman(), 1 << 20).decode(block))


def learned(*blocks: bytes) -> KnownAnswers:
    known = KnownAnswers()
    for block in blocks:
        known.learn(block, decoded(block))
    return known


@pytest.mark.parametrize("others", [(), (JSON,), (JSON, ("x-a", "1"), ("x-a", "2"))])
@pytest.mark.parametrize("status", ["200", "404", "429"])
@pytest.mark.parametrize("length", ["", "0", "12", "123456789"])
def test_a_block_like_one_before_is_read_as_if_decoded(
    others: tuple[Field, ...], status: str, length: str
):
    first, second = (
        fields(number, *others, status=status, length=length) for number in (1, 0xABCDEF)
    )
    known = learned(encoded(first))
    head, expected = known.read(encoded(second)), decoded(encoded(second))
    assert head is not None
    assert (head.status, head.content_length) == (expected.status, expected.content_length)
    assert [*head.headers] == [*expected.headers]
    assert len(head.headers) == len(expected.headers)
    assert head.headers[0] == expected.headers[0]


def test_its_octets_are_those_that_came_without_the_length():
    known = learned(encoded(fields(1, JSON)))
    head = known.read(encoded(fields(2, JSON)))
    assert head is not None
    headers = head.headers
    assert isinstance(headers, PassedHeaders)
    assert headers.octets == encoded(fields(2, JSON, length=""))
    assert headers.octets_for(200, "audit-id") == headers.octets
    assert headers.octets_for(500, "audit-id") is None
    assert headers.octets_for(200, "x-id") is None
    assert [*headers.without_length()] == fields(2, JSON, length="")[1:]
    assert headers.without_length().octets == headers.octets


@pytest.mark.parametrize(
    "block",
    [
        encoded(fields(2, JSON, date=DATES[1])),
        encoded(fields(2, JSON, length="13")),
        encoded(fields(2, JSON, ("x-more", "1"))),
        encoded(fields(2, JSON, status="404")),
        encoded(fields(2, JSON))[:-1],
        encoded(fields(2, JSON)) + b"\x80",
        encoded(fields(2, JSON)).replace(uuid(2).encode(), b"\r\n" + uuid(2)[2:].encode()),
        encoded(fields(2, JSON)).replace(b"audit-id", b"audit-ix"),
        encoded(fields(2, JSON)[:-2]),
        encoded(fields(2)[:1]),
        b"\x88",
        b"",
    ],
)
def test_others_have_to_be_decoded(block: bytes):
    assert learned(encoded(fields(1, JSON))).read(block) is None


@pytest.mark.parametrize(
    "made",
    [
        fields(1, ("trailer", "x")),
        fields(1, ("content-length", "12")),
        fields(1, ("date", DATES[0])),
        fields(1, ("audit-id", uuid(7))),
        [(":status", "200"), ("audit-id", uuid(1)), ("date", DATES[0])],
        [(":status", "200"), ("date", DATES[0]), ("audit-id", "x" * 127)],
        [(":status", "200"), ("date", "today"), ("audit-id", uuid(1))],
        [(":status", "204")],
    ],
)
def test_what_is_not_passed_on_as_it_is(made: list[Field]):
    block = encoded(made)
    assert learned(block).read(block) is None


def test_octets_that_depend_on_a_table_are_not_remembered():
    encoder = hpack.Encoder()
    first, second = (encoder.encode(fields(1, JSON)) for _ in range(2))
    known = KnownAnswers()
    for block in (first, second):
        known.learn(block, http2_response_head(fields(1, JSON)))
    assert known.read(first) is None
    assert known.read(second) is None


def test_two_names_of_an_id_after_the_same_fields():
    other = encoded(fields(1, JSON)).replace(b"audit-id", b"other-id")
    known = learned(encoded(fields(1, JSON)), other)
    for block, name in ((encoded(fields(2, JSON)), "audit-id"), (other, "other-id")):
        head = known.read(block)
        assert head is not None
        assert head.headers[2][0] == name


def test_a_new_second_and_a_new_length_are_learned():
    known = learned(encoded(fields(1, JSON)))
    for block in (encoded(fields(2, JSON, date=DATES[1], length="99")),):
        assert known.read(block) is None
        known.learn(block, decoded(block))
        assert known.read(block) is not None
    assert known.read(encoded(fields(3, JSON))) is not None  # the old ones are not forgotten


def test_memory_is_bounded_and_useless_learning_ends():
    known = KnownAnswers()
    for number in range(1000):
        block = encoded(fields(1, ("etag", str(number)), length=str(number)))
        assert known.read(block) is None
        known.learn(block, decoded(block))
    assert known._is_off
    assert len(known._leads) + len(known._middles) + len(known._lengths) < 5000


def test_learning_goes_on_while_it_is_of_use():
    known = KnownAnswers()
    for number in range(1000):
        block = encoded(fields(1, ("etag", str(number))))
        known.learn(block, decoded(block))
        assert all(known.read(block) for _ in range(10))
    assert not known._is_off
    assert len(known._leads) <= 64
