"""Help texts in kubectl's layout."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable

from pykcp.cli.plugins.shell.command import Command
from pykcp.cli.plugins.shell.flags import PluginFlag

_WORDS = {"string": "string", "int": "int", "duration": "duration", "list": "strings", "bool": ""}


def help_text(command: Command) -> str:
    """The text of `--help`: description, usage, flags."""
    head = (command.long or command.short).strip()
    return f"{head}\n\n{usage_text(command)}"


def usage_text(command: Command) -> str:
    parts = [_usage(command)]
    if command.aliases:
        parts.append("Aliases:\n  " + ", ".join((command.name, *command.aliases)) + "\n")
    if command.examples:
        parts.append("Examples:\n" + textwrap.indent(command.examples.strip("\n"), "  ") + "\n")
    shown = [child for child in command.children if not child.deprecated]
    if shown:
        parts.append("Available Commands:\n" + _children(shown))
    parts.append("Flags:\n" + flag_lines([*command.own_flags(), *command.inherited]))
    above = [flag for parent in command.parents for flag in parent.inherited]
    if any(not flag.is_hidden for flag in above):
        parts.append("Global Flags:\n" + flag_lines(above))
    if shown:
        parts.append(f'Use "{command.path} [command] --help" for more about a command.\n')
    return "\n".join(parts)


def _usage(command: Command) -> str:
    lines = ["Usage:"]
    if command.run is not None:
        lines.append(f"  {command.path}{' ' if command.usage else ''}{command.usage} [flags]")
    if command.children:
        lines.append(f"  {command.path} [command]")
    return "\n".join(lines) + "\n"


def _children(children: Iterable[Command]) -> str:
    shown = sorted(children, key=lambda child: child.name)
    width = max(11, *(len(child.name) for child in shown))
    return "".join(f"  {child.name.ljust(width)} {child.short}\n" for child in shown)


def flag_lines(flags: Iterable[PluginFlag]) -> str:
    shown = sorted({flag.name: flag for flag in flags if not flag.is_hidden}.values())
    heads = [_flag_head(flag) for flag in shown]
    width = max((len(head) for head in heads), default=0) + 3
    room = max(_terminal_width() - width, 40)
    lines = []
    for head, flag in zip(heads, shown, strict=True):
        text = textwrap.wrap(flag.help + _default(flag), room) or [""]
        lines += [head.ljust(width) + text[0], *(" " * width + more for more in text[1:])]
    return "\n".join(lines) + "\n" if lines else ""


def _flag_head(flag: PluginFlag) -> str:
    short = f"  -{flag.short}, " if flag.short else "      "
    kind = _WORDS[flag.kind]
    return f"{short}--{flag.name}{' ' if kind else ''}{kind}"


def _default(flag: PluginFlag) -> str:
    if flag.default in (None, "", False, 0, []):
        return ""
    if flag.kind == "duration":
        minutes, seconds = divmod(int(flag.default), 60)
        return f" (default {f'{minutes}m' if minutes else ''}{seconds}s)"
    return f' (default "{flag.default}")' if flag.kind == "string" else f" (default {flag.default})"


def _terminal_width() -> int:
    try:
        return min(os.get_terminal_size(1).columns, 160)
    except OSError:
        return 120
