"""Which part of a document a client asks for."""

from __future__ import annotations

import pytest

from pykcp.server.media.ranges import BadRange, OutOfRange, part_of


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("", None),
        ("bytes=0-9", range(10)),
        ("bytes=5-", range(5, 100)),
        ("bytes= 5 - 7 ", range(5, 8)),
        ("bytes=-5", range(95, 100)),
        ("bytes=-500", range(100)),
        ("bytes=90-500", range(90, 100)),
        ("bytes=0-1,3-4", None),
        ("bytes=0-1,500-", range(2)),
        ("bytes=", None),
    ],
)
def test_parts(header: str, part: range | None) -> None:
    assert part_of(header, 100) == part


@pytest.mark.parametrize(
    ("header", "problem", "message"),
    [
        ("bytes=x", BadRange, "invalid range"),
        ("bytes=-", BadRange, "invalid range"),
        ("bytes=7-5", BadRange, "invalid range"),
        ("bytes=--5", BadRange, "invalid range"),
        ("lines=0-9", BadRange, "invalid range"),
        ("bytes=100-", OutOfRange, "invalid range: failed to overlap"),
        ("bytes=" + "9" * 30 + "-", BadRange, "invalid range"),
    ],
)
def test_refusals(header: str, problem: type[BadRange], message: str) -> None:
    with pytest.raises(BadRange) as caught:
        part_of(header, 100)
    assert (type(caught.value), str(caught.value)) == (problem, message)
