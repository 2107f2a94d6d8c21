"""What the commands have in common: flags, the root directory, errors."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pykcp.cli.server import refuse
from pykcp.programs.kit.flags import Flag, FlagError, FlagSet

ROOT = Flag("root-directory", "string", ".kcp", "Directory of the installation.")


class Given(NamedTuple):
    """What a command line says."""

    flags: dict[str, Any]
    words: list[str]

    @property
    def root(self) -> pathlib.Path:
        return pathlib.Path(self.flags["root-directory"]).absolute()


class HostCommand(NamedTuple):
    usage: str
    run: Callable[[Given], int]
    flags: tuple[Flag, ...] = ()
    short: dict[str, str] = {}  # noqa: RUF012  # never changed
    least: int = 0
    most: int | None = None
    """How many words it takes besides flags."""


def run_command(command: HostCommand, words: Sequence[str]) -> int:
    """Parse, run, and print errors of the user in one line each."""
    from pykcp.programs.kit.errors import USER_ERRORS

    known = FlagSet([("", [ROOT, *command.flags])], command.short)
    if any(word in ("--help", "-h") for word in words):
        print(command.usage + "\n" + known.usage(), end="")
        return 0
    try:
        given, rest = known.parse(words)
    except FlagError as error:
        return refuse(str(error).splitlines())
    if len(rest) < command.least or (command.most is not None and len(rest) > command.most):
        return refuse([f"wrong number of arguments; usage: {usage_line(command)}"])
    values = {flag.name: given.get(flag.name, flag.default) for flag in known.flags}
    try:
        return command.run(Given(values, rest))
    except USER_ERRORS as error:
        return refuse(_lines(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


def _lines(error: Exception) -> list[str]:
    from pykcp.programs.kit.errors import described

    return str(error).splitlines() if not isinstance(error, OSError) else [described(error)]


def usage_line(command: HostCommand) -> str:
    lines = command.usage.splitlines()
    return next((line.strip() for line in lines if line.strip().startswith("kcp ")), "")
