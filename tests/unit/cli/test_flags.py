"""Command lines as Go programs read them, with every problem told at once."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.cli.flags import Flag, FlagError, FlagSet, parse_duration
from pykcp.cli.kcp import main
from pykcp.cli.start_flags import START_FLAGS, settings_from
from pykcp.programs.shard.settings import ShardSettings

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
                Flag("old", "string", "", "Known.", is_ignored=True),
                Flag("hidden", "string", "", "Hidden.", is_hidden=True),
                Flag("later", "string", "", "Later.", is_refused=True),
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
        ("", "name", "x"), ("--name a --name b", "name", "b"),
    ],
)  # fmt: skip
def test_values(words: str, name: str, value: Any) -> None:
    """Each form of giving a flag; what is not given has its default."""
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
    """Every flag that is not hidden, with its default and whether it has an effect."""
    text = FLAGS.usage()
    assert "--name string" in text
    assert "(default x)" in text
    assert "(default 2s)" in text
    assert "Known. (accepted for compatibility; no effect)" in text
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


def start(*words: str) -> ShardSettings:
    values, _ = START_FLAGS.parse(words)
    return settings_from(values)


def test_defaults_of_start_are_those_of_the_settings() -> None:
    """`kcp start` without flags and a fresh ShardSettings are the same thing."""
    assert start() == ShardSettings()


def test_every_flag_is_read() -> None:
    """A flag that is neither ignored nor refused changes the settings."""
    samples: dict[str, str] = {
        "int": "7", "bool": "true", "duration": "7s", "strings": "seven", "map": "WatchList=false", "string": "seven",
        "pair": "seven=7",
    }  # fmt: skip
    without_effect = []
    for flag in START_FLAGS.flags:
        if flag.is_ignored or flag.is_refused:
            continue
        text = "false" if flag.default is True else samples.get(flag.kind, "0.7")
        try:
            changed = start(f"--{flag.name}={text}")
        except FlagError:
            continue  # it was read closely enough to be refused
        if changed == ShardSettings():
            without_effect.append(flag.name)
    assert without_effect == []


def test_no_flag_is_there_twice() -> None:
    """Each name once, each with a sentence."""
    names = [flag.name for _, flags in START_FLAGS.sections for flag in flags]
    assert len(names) == len(set(names))
    assert all(flag.help.endswith(".") for flag in START_FLAGS.flags)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("admin", {"admin"}), ("+user", {"workspace-types", "admin", "user"}), ("-admin", {"workspace-types"}),
        ("user,-admin", {"user"}),
    ],
)  # fmt: skip
def test_batteries(given: str, expected: set[str]) -> None:
    """Plain names replace the default, + and - change it."""
    assert start(f"--batteries-included={given}").batteries == expected


def test_feature_gates() -> None:
    """Known gates are set; unknown ones and odd values are refused by name."""
    assert start("--feature-gates=WorkspaceMounts=true").feature_gates == {"WorkspaceMounts": True}
    with pytest.raises(FlagError) as caught:
        start("--feature-gates=NoSuch=true,WatchList=maybe")
    assert str(caught.value).splitlines() == [
        "unrecognized feature gate: NoSuch",
        "invalid value of WatchList: maybe, must be true or false",
    ]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--version"], 0, "kcp version v1."),
        (["--help"], 0, "Usage:"),
        ([], 0, "Usage:"),
        (["start", "options"], 0, "--root-directory"),
        (["start", "--help"], 0, "--root-directory"),
        (["nosuch"], 1, 'Error: unknown command "nosuch" for "kcp"; try kcp --help'),
        (["start", "nosuch"], 1, 'Error: unknown command "nosuch" for "kcp start"'),
        (["start", "--nosuch", "--v=x"], 1, "Error: unknown flag: --nosuch\nError: invalid argument"),
        (["start", "--secure-port=0", "--bind-address=x"], 1, "Error: --secure-port 0 is not a valid port"),
    ],
)  # fmt: skip
def test_the_program(
    words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help on standard output; problems on standard error, a line each, and exit code 1."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert text in (err if code else out)
    assert (out if code else err) == ""
