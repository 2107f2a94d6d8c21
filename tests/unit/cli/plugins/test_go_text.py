"""Go's ways with text."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.go_text import columns, parse_duration, quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('a"b', '"a\\"b"'),
        ("a\nb\\", '"a\\nb\\\\"'),
        ("\x1b[1m", '"\\x1b[1m"'),
        ("héé", '"héé"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_quote(text, quoted):
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("500ms", 0.5), ("0", 0), ("-1.5s", -1.5), ("2us", 2e-6)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a\tb\tc", "aaa\tb\tc"], ["a    b  c", "aaa  b  c"]),
        (["."], ["."]),
        # a line without cells separates what is above from what is below
        (["aaaa\tb", "x", "a\tb"], ["aaaa  b", "x", "a  b"]),
        # the text behind the last tab belongs to no column
        (["a\tlong text", "aa\tb\tc"], ["a   long text", "aa  b  c"]),
        (["\tb", "\tc"], ["b", "c"]),
    ],
)
def test_columns(lines, expected):
    assert columns(lines, padding=2) == expected


def test_columns_have_a_least_width():
    assert columns(["a\tb"], padding=3, least=6) == ["a     b"]
