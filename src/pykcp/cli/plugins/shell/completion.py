"""What could be typed next: commands, flags, and names that the server or the kubeconfig knows.

The answer has the form that kubectl and shells expect of any such program: one candidate per
line, a tab and a description behind it, and `:<directive>` at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.shell.command import Command, CommandInvocation, FoundCommand, find, read
from pykcp.cli.plugins.shell.flags import PluginFlag

NO_SPACE = 2
NO_FILES = 4
FILES = 0
_NAMES = {0: "Default", 2: "NoSpace", 4: "NoFileComp", 6: "NoSpace, NoFileComp"}


class Candidate(NamedTuple):
    text: str
    description: str = ""


class Completions(NamedTuple):
    candidates: list[Candidate]
    directive: int = NO_FILES


def complete(root: Command, words: Sequence[str], *, with_descriptions: bool) -> int:
    answer = candidates(root, list(words) or [""])
    for candidate in answer.candidates:
        line = candidate.text
        if with_descriptions and candidate.description:
            line += "\t" + candidate.description
        print(line)
    print(f":{answer.directive}")
    name = ", ".join(f"ShellCompDirective{part}" for part in _NAMES[answer.directive].split(", "))
    print(f"Completion ended with directive: {name}", file=sys.stderr)
    return 0


def candidates(root: Command, words: Sequence[str]) -> Completions:
    """What can stand where the last word stands; the words before it are complete."""
    *typed, current = words
    flag = _flag_that_waits(root, typed)
    if flag is not None:
        return _starting_with(current, _candidates(flag.choices, find(root, typed[:-1]), current))
    found = find(root, typed)
    if current.startswith("--") and "=" in current:
        return _value_behind_equals(found, current)
    if current.startswith("-") and current != "-":
        return _starting_with(current, Completions(list(_flag_names(found, current))))
    return _starting_with(current, _words(found, current))


def _flag_that_waits(root: Command, typed: Sequence[str]) -> PluginFlag | None:
    """The flag whose value is typed now."""
    if not typed or not typed[-1].startswith("-") or "=" in typed[-1] or "--" in typed:
        return None
    known = list(find(root, typed[:-1]).command.known_flags())
    word = typed[-1]
    for flag in known:
        if flag.takes_value and word in (f"--{flag.name}", f"-{flag.short}" if flag.short else ""):
            return flag
    return None


def _value_behind_equals(found: FoundCommand, current: str) -> Completions:
    name, _, value = current[2:].partition("=")
    flags = [flag for flag in found.command.known_flags() if flag.name == name]
    answer = _candidates(flags[0].choices if flags else "", found, value)
    return Completions(
        [
            Candidate(f"--{name}={one.text}", one.description)
            for one in answer.candidates
            if one.text.startswith(value)
        ],
        answer.directive,
    )


def _flag_names(found: FoundCommand, current: str) -> Iterator[Candidate]:
    for flag in sorted({flag.name: flag for flag in found.command.known_flags()}.values()):
        if flag.is_hidden:
            continue
        if flag.short and not current.startswith("--"):
            yield Candidate(f"-{flag.short}", flag.help)
        yield Candidate(f"--{flag.name}", flag.help)


def _words(found: FoundCommand, current: str) -> Completions:
    command = found.command
    arguments = [word for word in found.words if not word.startswith("-")]
    if arguments:
        return Completions([])
    children = [
        Candidate(child.name, child.short)
        for child in sorted(command.children, key=lambda child: child.name)
        if not child.deprecated
    ]
    found_names = _candidates(command.completes, found, current)
    return Completions([*children, *found_names.candidates], found_names.directive)


def _starting_with(current: str, answer: Completions) -> Completions:
    return Completions(
        [one for one in answer.candidates if one.text.startswith(current)], answer.directive
    )


def _candidates(source: str, found: FoundCommand, current: str) -> Completions:
    """Names from the kubeconfig or the server; none if it cannot be reached."""
    if source == "":
        return Completions([])
    if source == "files":
        return Completions([], FILES)
    if source.startswith("="):
        return Completions([Candidate(word) for word in source[1:].split("|")])
    from pykcp.cli.plugins.completions import names

    try:
        return names(source, _read_leniently(found), current)
    except (PluginError, OSError, ValueError):
        return Completions([])  # an incomplete command line may be invalid


def _read_leniently(found: FoundCommand) -> CommandInvocation:
    """The flags so far; ignores all of them if one cannot be parsed yet."""
    try:
        return read(found)
    except PluginError:
        return read(FoundCommand(found.command, [], []))
