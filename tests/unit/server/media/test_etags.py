"""Which versions of a document a client has."""

from __future__ import annotations

import pytest

from pykcp.server.media.etags import is_known


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
