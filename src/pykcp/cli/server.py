"""What the command lines of all server programs have in common: help, version, completion, run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcp.cli.output import ends_quietly, use_plain_output

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

HELP = ("--help", "-h", "help")


class ServerCommand(NamedTuple):
    usage: str
    """What to print above the flags."""
    settings: Callable[[], type[ProgramSettings]]
    """Its settings; a function, so that help and version import nothing."""
    run: Callable[[Any, list[str]], int]
    """Runs the program with checked settings and warnings to log; its exit code."""


def refuse(problems: Iterable[str]) -> int:
    """Print what is wrong with a command line; the exit code of a program that cannot start."""
    for line in problems:
        print(f"Error: {line}", file=sys.stderr)
    return 1


def start(command: ServerCommand, words: Sequence[str]) -> int:
    """Run a server with the flags given, or print its help."""
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.kit.flags import FlagError

    settings = command.settings()
    if any(word in ("--help", "-h") for word in words):
        print(command.usage + settings.flag_set().usage(), end="")
        return 0
    try:
        parsed, warnings = settings.parse(words)
        parsed.checked()
    except (FlagError, SettingsError) as error:
        return refuse(str(error).splitlines())
    use_plain_output()
    return command.run(parsed, warnings)


@ends_quietly
def main_of(program: str, command: ServerCommand, arguments: Sequence[str]) -> int:
    """The command line of a program that does nothing but serve."""
    words = list(arguments)
    if words and words[0] in ("--version", "version"):
        return print_version(program, words[1:])
    if words and words[0] == "completion":
        from pykcp.cli.completion import main as completion

        return completion(program, words[1:])
    if words and words[0] == HELP[-1]:
        words[0] = "--help"
    return start(command, words)


def unknown_command(word: str, program: str, known: Sequence[str]) -> int:
    from difflib import get_close_matches

    found = get_close_matches(word, known, 1)
    hint = f'did you mean "{found[0]}"?' if found else f"try {program} --help"
    return refuse([f'unknown command "{word}" for "{program}"; {hint}'])


def print_version(program: str, words: Sequence[str] = ()) -> int:
    """`--version`, and `version` with `-o json` or `-o yaml`."""
    from pykcp.programs.kit.flags import Flag, FlagError, FlagSet
    from pykcp.server.documents.version import GIT_VERSION, version

    flags = FlagSet(
        [("", [Flag("output", "string", "", "Output format: json or yaml.")])], {"o": "output"}
    )
    try:
        given, rest = flags.parse(words)
    except FlagError as error:
        return refuse(str(error).splitlines())
    form = given.get("output", "")
    if rest or form not in ("", "json", "yaml"):
        return refuse(
            [f"--output {form!r} must be json or yaml" if form else "unexpected argument"]
        )
    if form == "json":
        import json

        print(json.dumps(version(), indent=2))
    elif form == "yaml":
        import yaml

        print(yaml.safe_dump(version(), sort_keys=False), end="")
    else:
        print(f"{program} version {GIT_VERSION}")
    return 0
