"""Runs a command line and returns the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pykcp.cli.output import ends_quietly
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.shell.command import (
    Command,
    CommandInvocation,
    WantsHelp,
    check_arguments,
    find,
    read,
)


@ends_quietly
def run(root: Command, words: Sequence[str], *, program: str, error_word: str = "Error") -> int:
    """Run a command line; `error_word` is the prefix of error messages."""
    root = with_standard_commands(root, program)
    try:
        return _run(root, list(words))
    except PluginError as error:
        print(f"{error_word}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(root: Command, words: list[str]) -> int:
    if words and words[0] in ("__complete", "__completeNoDesc"):
        from pykcp.cli.plugins.shell.completion import complete

        return complete(root, words[1:], with_descriptions=words[0] == "__complete")
    found = find(root, words)
    if found.command.deprecated:
        command = found.command
        print(f'Command "{command.name}" is deprecated, {command.deprecated}', file=sys.stderr)
    invocation = read(found)
    try:
        return _invoke(invocation)
    except WantsHelp:
        return show_help(invocation.command)


def _invoke(invocation: CommandInvocation) -> int:
    command = invocation.command
    if invocation["help"]:
        return show_help(command)
    if command.version and invocation["version"]:
        print(f"{command.name} version {command.version}")
        return 0
    check_arguments(invocation)
    if command.run is None:
        return show_help(command)
    return command.run(invocation) or 0


def show_help(command: Command) -> int:
    from pykcp.cli.plugins.shell.help import help_text

    print(help_text(command), end="")
    return 0


def with_standard_commands(root: Command, program: str) -> Command:
    """`help` and `completion`, for programs with subcommands."""
    if not root.children:
        return root
    own: list[Command] = []
    extra = (_completion_command(program), _help_command(own))
    own.append(root._replace(children=(*root.children, *extra)))
    return own[0]


def _help_command(roots: list[Command]) -> Command:
    """`roots` contains the program's root command when help is requested."""

    def show(invocation: CommandInvocation) -> int:
        found = find(roots[0], invocation.arguments)
        if not found.words:
            return show_help(found.command)
        from pykcp.cli.plugins.shell.help import usage_text

        topics = " ".join(f"`{word}`" for word in invocation.arguments)
        print(f"Unknown help topic [{topics}]", file=sys.stderr)
        print(usage_text(roots[0]), end="", file=sys.stderr)
        return 0

    return Command("help", "Show help about any command.", show, usage="[command]")


def _completion_command(program: str) -> Command:
    shells = ("bash", "zsh", "fish", "powershell")

    def script_for(shell: str) -> Command:
        def show(invocation: CommandInvocation) -> int:
            from pykcp.cli.plugins.shell.completion_scripts import script

            print(script(shell, program), end="")
            return 0

        return Command(shell, f"Print the completion script for {shell}.", show)

    return Command(
        "completion",
        "Print a shell completion script.",
        children=tuple(script_for(shell) for shell in shells),
    )
