"""Which versions of a document a client has."""

from __future__ import annotations

import pytest

from pykcp.server.media.etags import is_known, may_send_part, refusal


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", False),
        ('"ABC"', True),
        ("*", True),
        ('"x", "ABC"', True),
        ('"ABC","x"', True),
        ('W/"ABC"', True),
        ('"ABCD"', False),
        ("ABC", False),
        ('"x, ABC"', False),
        ('"' + "x" * 10_000 + '", "ABC"', False),
    ],
)
def test_known_tags(header: str, expected: bool) -> None:
    assert is_known(header, "ABC") is expected


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 0),
        ({"if-match": '"ABC"'}, 0),
        ({"if-match": "*"}, 0),
        ({"if-match": '"x", "ABC"'}, 0),
        ({"if-match": '"x"'}, 412),
        ({"if-match": 'W/"ABC"'}, 412),
        ({"if-match": '"x"', "if-none-match": '"ABC"'}, 412),
        ({"if-match": '"ABC"', "if-none-match": '"ABC"'}, 304),
        ({"if-none-match": 'W/"ABC"'}, 304),
    ],
)
def test_refusals(headers: dict[str, str], status: int) -> None:
    assert refusal(headers.get, "ABC") == status


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, True), ('"ABC"', True), ('"x"', False), ('W/"ABC"', False), ("Fri, 31 Dec", False)],
)
def test_parts_of_the_version_that_the_client_has(header: str | None, expected: bool) -> None:
    assert may_send_part({"if-range": header}.get, "ABC") is expected
