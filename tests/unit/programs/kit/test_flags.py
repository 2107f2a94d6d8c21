"""Command lines as Go programs read them, with every problem told at once."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.programs.kit.flags import (
    Flag,
    FlagError,
    FlagSet,
    ignored,
    parse_duration,
    refused,
)

FLAGS = FlagSet(
    [
        (
            "Some",
            [
                Flag("name", "string", "x", "A name."),
                Flag("count", "int", 1, "A number."),
                Flag("on", "bool", False, "A switch."),
                Flag("wait", "duration", 2.0, "A time."),
                Flag("list", "strings", [], "A list."),
                Flag("map", "map", {}, "A map."),
                Flag("files", "list", [], "Files, with commas."),
                ignored("old"),
                Flag("hidden", "string", "", "Hidden.", is_hidden=True),
                Flag("soon", "string", "", "Soon.", effect="pending"),
                refused("later"),
            ],
        )
    ],
    short={"n": "name"},
)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--name=a", "name", "a"), ("--name a", "name", "a"), ("-n a", "name", "a"), ("--name=", "name", ""),
        ("--name=a=b", "name", "a=b"), ("--count=-3", "count", -3), ("--on", "on", True), ("--on=false", "on", False),
        ("--wait=1h30m", "wait", 5400.0), ("--list=a,b --list=c", "list", ["a", "b", "c"]),
        ("--map=a=1,b=2 --map=c=3", "map", {"a": "1", "b": "2", "c": "3"}), ("--old=x", "old", "x"),
        ("--name a --name b", "name", "b"), ("-na", "name", "a"), ("-n=a", "name", "a"),
        ("--files=a,b --files=c", "files", ["a,b", "c"]), ("--list=", "list", []), ("--on=T", "on", True),
        ("--count=+3", "count", 3),
    ],
)  # fmt: skip
def test_values(words: str, name: str, value: Any) -> None:
    """Each form of giving a flag."""
    values, rest = FLAGS.parse(words.split())
    assert values[name] == value
    assert rest == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--nosuch", "unknown flag: --nosuch"),
        ("--nosuch=1", "unknown flag: --nosuch"),
        ("--count=x", 'invalid argument "x" for "--count" flag: expected a whole number'),
        ("--on=maybe", 'invalid argument "maybe" for "--on" flag: expected true or false'),
        ("--wait=5", 'invalid argument "5" for "--wait" flag: expected a duration such as 30s, 5m or 1h'),
        ("--map=a", 'invalid argument "a" for "--map" flag: expected key=value pairs separated by commas'),
        ("--name", "flag needs an argument: --name"),
        ("--later=x", "--later is not supported yet by this version"),
        ("--coutn=1", "unknown flag: --coutn (did you mean --count?)"),
        ("--count=1_0", 'invalid argument "1_0" for "--count" flag: expected a whole number'),
        ("-x", "unknown shorthand flag: 'x' in -x"),
    ],
)  # fmt: skip
def test_problems(words: str, message: str) -> None:
    """A sentence that says which flag, what was given and what is expected."""
    with pytest.raises(FlagError) as caught:
        FLAGS.parse(words.split())
    assert str(caught.value) == message


def test_all_problems_are_told_at_once() -> None:
    """Nobody has to start five times to find five mistakes."""
    with pytest.raises(FlagError) as caught:
        FLAGS.parse(["--nosuch", "--count=x", "--name"])
    assert len(str(caught.value).splitlines()) == 3


def test_what_is_not_a_flag() -> None:
    """Words, a lone dash, and everything behind two dashes."""
    _, rest = FLAGS.parse(["a", "--name=b", "-", "--", "--count=x"])
    assert rest == ["a", "-", "--count=x"]


def test_usage() -> None:
    """Every flag that is not hidden, with its default; those without effect at the end."""
    text = FLAGS.usage()
    assert "--name string" in text
    assert "(default x)" in text
    assert "(default 2s)" in text
    assert text.endswith("Accepted for compatibility; ignored.\n  --old\n")
    assert "--hidden" not in text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("10s", 10), ("1h2m3s", 3723), ("1.5h", 5400), ("500ms", 0.5), ("-5s", -5), ("+5s", 5), ("1us", 1e-6)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    """Go's syntax."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1d", "1s2", "--1s"])
def test_bad_durations(text: str) -> None:
    """Numbers without unit, units without number, and units that Go does not know."""
    with pytest.raises(ValueError):
        parse_duration(text)


def test_what_is_not_given_is_not_there() -> None:
    """Defaults belong to the option groups."""
    assert FLAGS.parse(["--name=x"]) == ({"name": "x"}, [])


def test_warnings() -> None:
    """One for each flag that is given and has no effect."""
    given, _ = FLAGS.parse(["--old=1", "--old=2", "--name=x", "--soon=1"])
    assert FLAGS.warnings(given) == [
        "--old is accepted for compatibility and ignored",
        "--soon is accepted but not in effect yet",
    ]
