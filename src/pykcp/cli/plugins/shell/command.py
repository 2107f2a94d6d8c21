"""Commands and subcommands: find the command, parse its flags, run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.shell.flags import Parser, PluginFlag, Values, defaults

HELP = PluginFlag("help", "bool", "Show this help.", False, "h")
VERSION = PluginFlag("version", "bool", "Print the version.", False)


class WantsHelp(Exception):
    """Raised by a command with invalid arguments, to print its help."""


class CommandInvocation:
    """A command as it was typed: flags by name, arguments in order."""

    def __init__(
        self, command: Command, values: Values, given: frozenset[str], arguments: list[str]
    ) -> None:
        self.command = command
        self.values = values
        self.given = given
        self.arguments = arguments

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        return self.values.get(name)


class Command(NamedTuple):
    name: str
    short: str
    run: Callable[[CommandInvocation], int | None] | None = None
    usage: str = ""
    """Arguments in the usage line."""
    long: str = ""
    examples: str = ""
    aliases: tuple[str, ...] = ()
    flags: tuple[PluginFlag, ...] = ()
    inherited: tuple[PluginFlag, ...] = ()
    """Flags inherited by all subcommands."""
    children: tuple[Command, ...] = ()
    exact_arguments: int | None = None
    deprecated: str = ""
    version: str = ""
    knows_children_only: bool = False
    """Whether an unknown subcommand is an error."""
    completes: str = ""
    """Completion of its arguments: the name of a source, see completion.py."""
    parents: tuple[Command, ...] = ()

    def child(self, word: str) -> Command | None:
        for child in self.children:
            if word == child.name or word in child.aliases:
                return child
        return None

    @property
    def path(self) -> str:
        return " ".join([*(parent.name for parent in self.parents), self.name])

    def own_flags(self) -> tuple[PluginFlag, ...]:
        versioned = (VERSION,) if self.version else ()
        return (*self.flags, *versioned, HELP)

    def known_flags(self) -> Iterator[PluginFlag]:
        """The command's own flags, then inherited ones."""
        yield from self.own_flags()
        yield from self.inherited
        for parent in reversed(self.parents):
            yield from parent.inherited


class FoundCommand(NamedTuple):
    command: Command
    before: list[str]
    """Flags before the name of the command."""
    words: list[str]


def find(root: Command, words: Sequence[str]) -> FoundCommand:
    """Find the innermost subcommand; flags before it are kept."""
    command, rest, before = root, list(words), list[str]()
    index = 0
    while index < len(rest):
        word = rest[index]
        if word == "--":
            break
        if word.startswith("-") and len(word) > 1:
            index += 2 if _takes_next(command, word) else 1
            continue
        below = command.child(word)
        if below is None:
            break
        before += rest[:index]
        rest, index = rest[index + 1 :], 0
        command = below._replace(parents=(*command.parents, command))
    return FoundCommand(command, before, rest)


def _takes_next(command: Command, word: str) -> bool:
    """Whether the next word is this flag's value; an unknown flag is assumed to have one."""
    if "=" in word:
        return False
    if word.startswith("--"):
        known = {flag.name: flag for flag in _reachable_flags(command)}.get(word[2:])
    elif len(word) > 2:
        return False
    else:
        known = {flag.short: flag for flag in _reachable_flags(command) if flag.short}.get(word[1:])
    return known is None or known.takes_value


def _reachable_flags(command: Command) -> Iterator[PluginFlag]:
    for child in command.children:
        yield from _reachable_flags(child)
    yield from command.known_flags()


def read(found: FoundCommand) -> CommandInvocation:
    """The flags of the command that was found.

    Flags in front of its name may also be those of the commands above: they count for it where it
    has a flag of that name.
    """
    command = found.command
    known = list(command.known_flags())
    above = [flag for parent in reversed(command.parents) for flag in parent.own_flags()]
    values = defaults([*reversed(above), *reversed(known)])
    early = Parser([*known, *above], values)
    early.read(found.before)
    late = Parser(known, values)
    late.given |= early.given
    late.read(found.words)
    return CommandInvocation(command, values, frozenset(late.given), late.arguments)


def check_arguments(invocation: CommandInvocation) -> None:
    command, arguments = invocation.command, invocation.arguments
    wanted = command.exact_arguments
    if wanted is not None and len(arguments) != wanted:
        raise PluginError(f"accepts {wanted} arg(s), received {len(arguments)}")
    if command.knows_children_only and arguments:
        raise PluginError(
            f"unknown command {quote(arguments[0])} for {quote(command.path)}"
            + _suggestions(command, arguments[0])
        )


def _suggestions(command: Command, word: str) -> str:
    close = [
        child.name
        for child in command.children
        if not child.deprecated
        and (_distance(word.lower(), child.name.lower()) <= 2 or child.name.startswith(word))
    ]
    return "\n\nDid you mean this?\n" + "".join(f"\t{name}\n" for name in close) if close else ""


def _distance(one: str, other: str) -> int:
    """The edit distance of two words."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, against in enumerate(other, 1):
            previous, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, previous + (letter != against)),
            )
    return row[-1]
