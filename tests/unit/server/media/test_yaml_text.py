"""YAML bodies become the JSON values that Go makes of them; hostile texts are cheap to refuse."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.server.media.yaml_text import MAX_DEPTH, BadYAML, duplicates, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("# nothing", None), ("a: 1", {"a": 1}), ("- a\n- 1\n- ~", ["a", 1, None]),
        ("a: y", {"a": True}), ("a: off", {"a": False}), ("a: 'y'", {"a": "y"}), ("a: Null", {"a": None}),
        ("a: 0777", {"a": 511}), ("a: 0o17", {"a": 15}), ("a: 0x1F", {"a": 31}), ("a: 0b101", {"a": 5}),
        ("a: -0x10", {"a": -16}), ("a: 1_000", {"a": 1000}), ("a: +12", {"a": 12}), ("a: 09", {"a": 9}),
        ("a: 1e3", {"a": 1000}), ("a: .5", {"a": 0.5}), ("a: 1.", {"a": 1}), ("a: 12e", {"a": "12e"}),
        ("a: 12:30:45", {"a": "12:30:45"}), ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 2026-01-01T00:00:00Z", {"a": "2026-01-01T00:00:00Z"}),
        ("a: 18446744073709551615", {"a": 2**64 - 1}), ("a: 99999999999999999999", {"a": 1e20}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}), ("a: >\n  x\n  y\n", {"a": "x y\n"}),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, d: 1}\nc:\n  <<: *x\n  d: 2", {"a": {"b": 1, "d": 1}, "c": {"b": 1, "d": 2}}),
        ("a: !!str 12", {"a": "12"}), ("a: !!binary aGk=", {"a": "hi"}), ("a: !own text", {"a": "text"}),
        ("--- first\n--- second", "first"), ('{"a": "\\u00fc"}', {"a": "ü"}), ("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    """Plain words, numbers, quoting, merging and tags as Go's decoder reads them."""
    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: b\nc: ]", "yaml: line 1: did not find expected node content"),
        ("a:\n  b: 1\n c: 2", "yaml: line 2: did not find expected key"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("x: 1\ny: b: c", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: \x01", "yaml: control characters are not allowed"),
        ("a: *nosuch", "yaml: unknown anchor 'nosuch' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("? [a]\n: b", "unsupported map key of type: slice"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    """What is not YAML or has no form in JSON is refused in Go's words."""
    with pytest.raises(BadYAML) as caught:
        parse(text.encode())
    assert str(caught.value) == message


@pytest.mark.parametrize("piece", ["- ", "[", "{a: ", "? "])
def test_deep_texts_are_refused_at_once(piece: str) -> None:
    """Millions of levels neither overflow the stack nor take long."""
    with pytest.raises(BadYAML, match=f"exceeded max depth of {MAX_DEPTH}"):
        parse(piece.encode() * 700_000)


def test_aliases_cannot_multiply() -> None:
    """A few lines that stand for billions of values are refused."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)]
    with pytest.raises(BadYAML, match="document contains excessive aliasing"):
        parse("\n".join(lines).encode())


def test_aliases_are_copies() -> None:
    """Whoever changes one use of an anchor does not change the others."""
    value = parse(b"a: &x {b: 1}\nc: *x")
    value["a"]["b"] = 2
    assert value["c"] == {"b": 1}


def test_repeated_keys_are_named_with_their_line() -> None:
    """Strict decoding tells of keys that are set twice, at any depth."""
    text = b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"
    assert duplicates(text) == [
        'line 4: key "c" already set in map',
        'line 5: key "a" already set in map',
    ]
    assert parse(text) == {"a": 3, "b": {"c": 2}}


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("a: 1\na:\n  b: 1\n  c: 2\n", ['line 3: key "a"']),  # where the value begins
        ("a: 1\na: {b: 1,\n  c: 2}\n", ['line 2: key "a"']),
        ("a: 1\na:\n- 1\n- 2\n", ['line 3: key "a"']),
        ("a: 1\na:\nb: 2\n", ['line 2: key "a"']),
        ("a: 1\na: &x [1,\n 2]\n", ['line 2: key "a"']),
        ("1: a\n1: b\n", ["line 2: key 1"]),
        ("1: a\n'1': b\n1: c\n'1': d\n", ["line 3: key 1", 'line 4: key "1"']),
        ("true: a\nyes: b\n", ["line 2: key true"]),
        ("1.5: a\n1.5: b\n", ["line 2: key 1.5"]),
        ("'1': a\n1: b\n", []),
        ('"a\\nb": 1\n"a\\nb": 2\n', ['line 2: key "a\\nb"']),
    ],
)
def test_how_repeated_keys_are_named(text: str, repeated: list[str]) -> None:
    """A number is not the text of the same form, and is shown as a number."""
    assert duplicates(text.encode()) == [f"{each} already set in map" for each in repeated]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text("abc:-#'\"{}[],&*!|>%@ \nü"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:", min_size=1), inner),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    """JSON text, also when it does not begin like an object, gives the values JSON gives."""
    assert parse(b" " + orjson.dumps(value)) == value


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60) | st.text("a:- &*!|>%@`\n\t{}[],#?'\"0.~<", max_size=60).map(str.encode)
)
def test_garbage_is_read_or_refused(body: bytes) -> None:
    """No bytes lead to anything but values that JSON can say, or BadYAML."""
    try:
        value = parse(body)
    except BadYAML:
        return
    orjson.dumps(value)


def test_long_texts_do_not_come_out_of_aliases_without_bound() -> None:
    long = b"a: &a " + b"x" * 1_000_000
    value = parse(long + b"\nb: [*a, *a]")
    assert [len(text) for text in value["b"]] == [1_000_000] * 2
    for more in (b"\nb: [" + b"*a," * 500_000 + b"*a]", b"\nb: &b {*a : 1}\nc: [*b, *b, *b, *b]"):
        with pytest.raises(BadYAML, match="document contains excessive aliasing"):
            parse(long + more)


def test_tag_directives_are_limited() -> None:
    assert parse(b"%TAG !a! tag:yaml.org,2002:\n--- !a!str 1") == "1"
    with pytest.raises(BadYAML, match="too many %TAG directives"):
        parse(b"".join(b"%%TAG !a%d! tag:x\n" % i for i in range(150_000)) + b"--- 1")


def test_aliases_within_many_anchors() -> None:
    body = b"- &x 1\n- " + b"&a [" * 240 + b"*x," * 100_000 + b"1" + b"]" * 240
    assert parse(body)[0] == 1
    with pytest.raises(BadYAML, match="anchor 'a' value contains itself"):
        parse(b"&a [&a [], *a]")


def test_repeated_keys_are_told_up_to_a_number() -> None:
    assert len(duplicates(b"a: 1\n" * 10_000)) == 100
    assert duplicates(b'{"a": 1, "b": ":"}') == []
    assert duplicates(b'{"a": 1, "a": 1}') == ['line 1: key "a" already set in map']
