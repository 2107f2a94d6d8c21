"""Quantities: expectations are what upstream's parser answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery import quantity
from pykcp.machinery.quantity import Quantity, QuantityError, parse

FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0", "0"), ("00", "0"), ("-", "0"), ("1", "1"), ("+1", "+1"), ("-1", "-1"),
        ("0.5", "500m"), (".5", "500m"), ("1.500", "1.500"), ("1500m", "1500m"), ("1000", "1k"),
        ("1e3", "1e3"), ("1E3", "1E3"), ("1E", "1E"), ("1e22", "10e21"), ("1000m", "1"),
        ("1Ki", "1Ki"), ("8Ki", "8Ki"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"),
        ("0.1Ki", "102400m"),
        ("9Ei", "9223372036854775807"), ("100000000000000000000", "100E"),
        ("1.00000000001", "1000000001n"), ("0.0000000001", "1n"), ("-0.0000000001", "-1n"),
        ("1000000000000000000000", "1"), (" 1 ", "1"),
    ],
)  # fmt: skip
def test_canonical_text(written: str, shown: str) -> None:
    assert quantity.canonical(written) == shown


def test_json_numbers() -> None:
    assert quantity.canonical(10) == "10"
    assert quantity.canonical(0.5) == "500m"
    assert quantity.canonical(1000.0) == "1k"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", FORMAT), ("x", FORMAT), ("1x", FORMAT), ("1e3m", FORMAT), ("1.1.1", FORMAT),
        ("1e", SUFFIX), ("1Kii", SUFFIX), ("1ee", SUFFIX), ("1e9223372036854775808", SUFFIX),
    ],
)  # fmt: skip
def test_errors(written: str, message: str) -> None:
    with pytest.raises(QuantityError) as raised:
        parse(written)
    assert str(raised.value) == message


def test_comparing_is_by_value_and_cheap_for_any_exponent() -> None:
    assert parse("1") == parse("1000m") == parse("0.001k")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1Gi") > parse("1G")
    assert parse("-1") < parse("0") < parse("1m")
    assert parse("1e2000000000") > parse("1")
    assert parse("-1e2000000000") < parse("1n")
    assert parse("1") != "1"


def test_numbers() -> None:
    assert parse("1500m").value == 2
    assert parse("1500m").milli_value == 1500
    assert parse("1.5").milli_value == 1500
    assert parse("1e2000000000").value == 0
    assert str(parse("0.0001").rounded_up(quantity.MILLI)) == "1m"
    assert str(parse("1.500").rounded_up(quantity.MILLI)) == "1.500"


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "m", "k", "Ki", "Mi", "e3", "e-6"]))
def test_what_is_shown_means_the_same(number: int, suffix: str) -> None:
    found = parse(f"{number}{suffix}")
    assert parse(str(found)) == found
    assert str(parse(str(found))) == str(found)


@given(st.text(alphabet="0123456789.+-eEKimMnu ", max_size=12))
def test_any_text_parses_or_says_why(text: str) -> None:
    try:
        found = parse(text)
    except QuantityError:
        return
    assert isinstance(found, Quantity)
    assert str(found)
