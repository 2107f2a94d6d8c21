"""Go's words for JSON that is none, and for values in messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery.patch import gojson, gotext

REFUSED = [
    ("", "unexpected end of JSON input"),
    ("  ", "unexpected end of JSON input"),
    ("{", "unexpected end of JSON input"),
    ('{"a":}', "invalid character '}' looking for beginning of value"),
    ('{"a" 1}', "invalid character '1' after object key"),
    ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
    ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
    ("[1 2]", "invalid character '2' after array element"),
    ('{"a":1} x', "invalid character 'x' after top-level value"),
    ("tru", "invalid character ' ' in literal true (expecting 'e')"),
    ("nuxl", "invalid character 'x' in literal null (expecting 'l')"),
    ("-", "invalid character ' ' in numeric literal"),
    ("1.", "invalid character ' ' after decimal point in numeric literal"),
    ("1e+", "invalid character ' ' in exponent of numeric literal"),
    ("01", "invalid character '1' after top-level value"),
    ('"\\x"', "invalid character 'x' in string escape code"),
    ('"\\u12G4"', "invalid character 'G' in \\u hexadecimal character escape"),
    ('"a\nb"', "invalid character '\\n' in string literal"),
    ("'a'", "invalid character '\\'' looking for beginning of value"),
    ("\x01", "invalid character '\\x01' looking for beginning of value"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_the_scanner_says_where_it_stopped(text: str, message: str) -> None:
    """The message names the character and what was being read."""
    with pytest.raises(gojson.BadJSON) as caught:
        gojson.decode(text.encode())
    assert str(caught.value) == message


def test_what_only_go_takes_is_taken() -> None:
    """Broken UTF-8 becomes replacement characters."""
    assert gojson.decode(b'"a\xffb"') == "a\ufffdb"


@pytest.mark.parametrize("depth", [5_000, 10_001])
def test_nesting_has_an_end(depth: int) -> None:
    """Deeper than the interpreter can follow is too deep."""
    with pytest.raises(gojson.BadJSON, match="exceeded max depth"):
        gojson.decode(b"[" * depth + b"]" * depth)


@given(st.binary(max_size=12) | st.text('{}[]",:0123 tfn\\eul-.', max_size=12).map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No other exception comes out."""
    try:
        gojson.decode(body)
    except gojson.BadJSON as refusal:
        assert str(refusal)  # noqa: PT017
    else:
        assert gojson.syntax_error(body) is None


SHOWN = [
    (None, "<nil>"),
    (True, "true"),
    ("x y", "x y"),
    ({"b": [1, 2.5, None], "a": {"z": {}}}, "map[a:map[z:map[]] b:[1 2.5 <nil>]]"),
    (80.0, "80"),
    (100000.0, "100000"),
    (1000000.0, "1e+06"),
    (1234567.5, "1.2345675e+06"),
    (0.0001, "0.0001"),
    (0.00001, "1e-05"),
    (-0.5, "-0.5"),
    (-0.0, "-0"),
    (1e21, "1e+21"),
    (123456.789, "123456.789"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_values_as_go_prints_them(value: object, text: str) -> None:
    """Keys sorted, no quotes, short floats."""
    assert gotext.show(value) == text
