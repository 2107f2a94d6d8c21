"""Texts from outside are read in time linear in their length, however they are made up.

Each is so long that reading it over and over would outlast the time limit of a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.apis.kube.validation import pem
from pykcp.machinery import quantity
from pykcp.machinery.cel.library.quantity import to_quantity
from pykcp.machinery.cel.library.times import parse_duration, parse_loose_duration
from pykcp.machinery.cel.runtime.numbers import parse_float
from pykcp.machinery.cel.runtime.values import EvalError
from pykcp.machinery.quantity import QuantityError
from pykcp.machinery.schema.formats import FORMATS

LONG = 200_000

CASES: list[tuple[Callable[[str], Any], str, Any]] = [
    (parse_float, "0" * LONG + "!", None),
    (parse_float, "0x" + "a" * LONG + "!", None),
    (parse_float, "0" * LONG + "1", 1.0),
    (parse_duration, "9" * LONG + "s", None),
    (parse_duration, "0" * LONG + "1s", 1_000_000_000),
    (parse_duration, "1h" * LONG, 720_000_000_000_000_000),
    (parse_loose_duration, "0" * LONG, None),
    (parse_loose_duration, "9" * LONG + " days", None),
    (parse_loose_duration, "0" * LONG + "2 days", 172_800_000_000_000),
    (FORMATS["email"], "@" * LONG, False),
    (FORMATS["email"], "(" * LONG, False),
    (FORMATS["email"], "(" * 900, False),
    (FORMATS["email"], "A Name <a@b.c>", True),
    (FORMATS["ipv4"], "0" * LONG + ".0.0.1", True),
    (FORMATS["ipv4"], "0." * LONG, False),
    (FORMATS["byte"], "a" * LONG + "!", False),
    (FORMATS["uri"], "http://" + "%41" * LONG, False),
    (FORMATS["hostname"], "a." * LONG, False),
    (lambda text: pem.blocks(text.encode()), "-----BEGIN a-----\n" * LONG, []),
    (
        lambda text: pem.blocks(text.encode()),
        "".join(f"-----BEGIN {n}-----\n" for n in range(LONG)) + "-----END a-----\n",
        [],
    ),
    (lambda text: pem.blocks(text.encode()), "-----BEGIN " + "-----" * LONG + "\n", []),
]


@pytest.mark.parametrize(("read", "text", "expected"), CASES)
def test_a_long_text_is_read_once(read: Callable[[str], Any], text: str, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize("text", ["0" * 999 + "!", "0" * LONG + "!", "9" * LONG, "1e" + "9" * LONG])
def test_quantities_have_a_length(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(text)
    with pytest.raises(EvalError):
        to_quantity(text)


def test_blocks_of_pem() -> None:
    text = (
        b"-----BEGIN LOST-----\nAAAA\n-----END OTHER-----\n"
        b"-----BEGIN A-----\nQUJD\n-----END A-----\nbetween\n"
        b"-----BEGIN B----- \t\r\nKey: value\n\nREVG\n-----END B-----"
        b"-----BEGIN not at the start of a line-----\n"
        b"-----BEGIN EMPTY-----\n-----END EMPTY-----\n-----BEGIN OPEN-----\nQUJD\n"
    )
    found = [(b.kind, b.data, b.has_headers) for b in pem.blocks(text)]
    assert found == [("A", b"ABC", False), ("B", b"DEF", True), ("EMPTY", b"", False)]
