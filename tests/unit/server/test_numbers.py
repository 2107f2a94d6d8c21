"""Numbers in queries are read as Go reads them."""

from __future__ import annotations

import pytest

from pykcp.server.numbers import BadNumber, int64, uint64


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-5", -5), ("+5", 5), ("007", 7), ("9223372036854775807", 2**63 - 1)],
)
def test_signed(text: str, value: int) -> None:
    """Decimal digits with an optional sign, within 64 bits."""
    assert int64(text) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_0", "²", "٣", "0x1", "1.0", "1e3", "--1", "\n1"]
)
def test_other_forms_are_refused(text: str) -> None:
    """What Python would take but Go does not is invalid syntax."""
    with pytest.raises(BadNumber, match=r"^strconv.ParseInt: parsing .*: invalid syntax$"):
        int64(text)
    with pytest.raises(BadNumber, match=r"^strconv.ParseUint: parsing .*: invalid syntax$"):
        uint64(text)


def test_range() -> None:
    """Too large is not the same as not a number."""
    assert uint64("18446744073709551615") == 2**64 - 1
    for text in ("18446744073709551616", "9" * 10_000):
        with pytest.raises(BadNumber, match="value out of range"):
            uint64(text)
    with pytest.raises(BadNumber, match='"9223372036854775808": value out of range'):
        int64("9223372036854775808")
    with pytest.raises(BadNumber, match="invalid syntax"):
        uint64("-1")
