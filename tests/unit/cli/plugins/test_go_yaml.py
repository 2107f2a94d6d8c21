"""YAML as Go writes it."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.go_yaml import dump, looks_like_no_text, sorted_keys


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": "x"}, "a: x\nb: 1\n"),
        ({"a10": {}, "a9": []}, "a9: []\na10: {}\n"),
        ({"list": [{"b": 1, "a": 2}]}, "list:\n- a: 2\n  b: 1\n"),
        ({"t": "true", "k": "12", "e": "", "d": "2026-01-01"},
         'd: "2026-01-01"\ne: ""\n' + 'k: "12"\nt: "true"\n'),
        ({"x": True, "y": None, "z": 1.5}, 'x: true\n"y": null\nz: 1.5\n'),
        ({"f": 1.0, "g": 1e30, "h": 1e-07}, "f: 1\ng: 1e+30\nh: 1e-07\n"),
        ({"a": "one\ntwo"}, "a: |-\n  one\n  two\n"),
        ({"a": "one\n"}, "a: |\n  one\n"),
        ({"a": "it's: so"}, "a: 'it''s: so'\n"),
        ({"a": "- x"}, "a: '- x'\n"),
        ({"a": " x"}, "a: ' x'\n"),
        ({"a": "übel"}, "a: übel\n"),
    ],
)  # fmt: skip
def test_dump(value, text):
    assert dump(value) == text


def test_long_lines_are_folded():
    text = dump({"a": "word " * 30})
    assert max(len(line) for line in text.splitlines()) <= 85
    assert len(text.splitlines()) > 1


@pytest.mark.parametrize(
    "text",
    ["", "~", "null", "yes", "Off", "n", "1", "-1", "1.5", ".5", "1e3", "0x1F", "0o17", "0b1",
     "1_000", ".inf", "-.Inf", ".nan", "12:30", "2026-11-15", "2026-11-15T10:00:00Z", "<<", "08"],
)  # fmt: skip
def test_texts_that_need_quotes(text):
    assert looks_like_no_text(text)


@pytest.mark.parametrize("text", ["a", "1a", "v1", "-", "+", "1.2.3", "root:a", "0x", "nope", "_1"])
def test_texts_that_need_none(text):
    assert not looks_like_no_text(text)


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b"],
        ["$ref", "a"],
        ["a2", "a10"],
        ["a9", "a10", "aa"],
        ["v1", "v1alpha1", "v2"],
        ["A", "a"],
        ["x-kubernetes-list", "xa"],
        ["a.b", "a1"],
    ],
)
def test_order_of_keys(names):
    assert sorted_keys(reversed(names)) == names
