"""Command lines: which command, which flags, which complaint."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.shell.command import Command, CommandInvocation, check_arguments, find, read
from pykcp.cli.plugins.shell.flags import PluginFlag
from pykcp.cli.plugins.shell.help import help_text
from pykcp.cli.plugins.shell.program import run, with_standard_commands


def _ignore(invocation: CommandInvocation) -> None:
    return None


ROOT = Command(
    "tool",
    "A tool.",
    _ignore,
    flags=(
        PluginFlag("context", "string", "Where.", ""),
        PluginFlag("short", "bool", "Less.", False),
    ),
    inherited=(PluginFlag("v", "int", "How much.", 0, "v"),),
    children=(
        Command(
            "tree",
            "A tree.",
            _ignore,
            aliases=("forest",),
            flags=(
                PluginFlag("context", "string", "Where.", ""),
                PluginFlag("full", "bool", "All.", False, "f"),
                PluginFlag("wait", "duration", "How long.", 30.0),
                PluginFlag("claims", "list", "Which."),
                PluginFlag("output", "string", "How.", "yaml", "o"),
            ),
            exact_arguments=None,
        ),
        Command("one", "One argument.", _ignore, exact_arguments=1),
        Command("gone", "Gone.", _ignore, deprecated="use tree"),
    ),
)


def _read(*words: str) -> CommandInvocation:
    return read(find(ROOT, words))


@pytest.mark.parametrize(
    ("words", "command", "values", "arguments"),
    [
        ([], "tool", {"context": "", "short": False, "v": 0}, []),
        (["x", "--short"], "tool", {"short": True}, ["x"]),
        (["tree", "-f"], "tree", {"full": True}, []),
        (["forest", "--full=false", "a", "b"], "tree", {"full": False}, ["a", "b"]),
        (["--context", "c", "tree"], "tree", {"context": "c"}, []),
        (["--context=c", "tree", "--context", "d"], "tree", {"context": "d"}, []),
        (["-v", "4", "tree", "-fv6"], "tree", {"v": 6, "full": True}, []),
        (["--v=2", "--", "tree"], "tool", {"v": 2}, ["tree"]),
        (["tree", "--", "-f"], "tree", {"full": False}, ["-f"]),
        (["-"], "tool", {}, ["-"]),
        (["tree", "-ojson"], "tree", {"output": "json"}, []),
        (["tree", "-o=json"], "tree", {"output": "json"}, []),
        (["tree", "--wait", "1m30s"], "tree", {"wait": 90.0}, []),
        (["tree", "--claims", "a,b", "--claims=c"], "tree", {"claims": ["a", "b", "c"]}, []),
        (["--full", "tree"], "tree", {"full": True}, []),
    ],
)
def test_words_are_understood(words, command, values, arguments):
    invocation = _read(*words)
    assert invocation.command.name == command
    assert invocation.arguments == arguments
    assert {name: invocation[name] for name in values} == values


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["tree", "-fx"], "unknown shorthand flag: 'x' in -fx"),
        (["tree", "--short"], "unknown flag: --short"),
        (["--context"], "flag needs an argument: --context"),
        (["tree", "-o"], "flag needs an argument: 'o' in -o"),
        (["--=x"], "bad flag syntax: --=x"),
        (
            ["--short=maybe"],
            (
                'invalid argument "maybe" for "--short" flag: '
                'strconv.ParseBool: parsing "maybe": invalid syntax'
            ),
        ),
        (
            ["-v=x"],
            (
                'invalid argument "x" for "-v, --v" flag: '
                'strconv.ParseInt: parsing "x": invalid syntax'
            ),
        ),
        (
            ["tree", "--wait", "soon"],
            'invalid argument "soon" for "--wait" flag: time: invalid duration "soon"',
        ),
        (
            ["tree", "--wait", "5"],
            'invalid argument "5" for "--wait" flag: time: missing unit in duration "5"',
        ),
    ],
)
def test_first_mistake_is_named(words, complaint):
    with pytest.raises(PluginError) as caught:
        _read(*words)
    assert str(caught.value) == complaint


def test_number_of_arguments():
    with pytest.raises(PluginError, match=r"^accepts 1 arg\(s\), received 2$"):
        check_arguments(_read("one", "a", "b"))


def test_unknown_command_with_a_suggestion():
    root = Command("kcp", "x", children=(Command("claims", "y"),), knows_children_only=True)
    with pytest.raises(PluginError) as caught:
        check_arguments(read(find(root, ["clams"])))
    assert str(caught.value) == (
        'unknown command "clams" for "kcp"\n\nDid you mean this?\n\tclaims\n'
    )


def test_errors_and_notes_go_to_stderr(capsys):
    assert run(ROOT, ["gone", "--bogus"], program="tool") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == ('Command "gone" is deprecated, use tree\nError: unknown flag: --bogus\n')


def test_help(capsys):
    assert run(ROOT, ["tree", "--help"], program="tool") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A tree.\n\nUsage:\n  tool tree [flags]\n")
    assert "-f, --full" in shown
    assert "Global Flags:" in shown
    assert run(ROOT, ["help", "tree"], program="tool") == 0
    assert capsys.readouterr().out == shown


def test_help_about_nothing_known(capsys):
    assert run(ROOT, ["help", "me"], program="tool") == 0
    assert capsys.readouterr().err.startswith("Unknown help topic [`me`]\nUsage:\n")


def test_deprecated_commands_are_not_advertised():
    text = help_text(with_standard_commands(ROOT, "tool"))
    assert "completion" in text
    assert "gone" not in text
